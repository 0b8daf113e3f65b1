"""What an owner tells of itself to people: who is at work, who waits for whom, what was committed lately."""
