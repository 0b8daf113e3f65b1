"""Validation of SQL in table metadata: row expressions with known functions only.

A writer of a table's log chooses the text of its constraints, defaults and generation expressions, and every other
writer evaluates them. Therefore only listed functions are allowed: built-in functions that depend only on the row, the
session and the clock, and have no side effects. Source: delta-spark's `SupportedGenerationExpressions`;
delta-protocol.md "CHECK Constraints", "Generated Columns", "Default Columns", "Column Invariants".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from slackwater.errors import UnsupportedFeature

FUNCTIONS = frozenset(
    """
    abs acos acosh add_months aes_decrypt aggregate and array array_append array_compact array_contains
    array_distinct array_except array_insert array_intersect array_join array_max array_min array_position
    array_prepend array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii
    asin asinh assert_true atan atan2 atanh base64 between bigint bin binary bit_count bit_get bit_length
    bitmap_bit_position bitmap_bucket_number bitmap_count boolean bround btrim cardinality cast cbrt ceil
    ceiling char char_length character_length chr coalesce collate collation concat concat_ws contains conv
    convert_timezone cos cosh cot crc32 csc curdate current_catalog current_database current_date current_path
    current_schema current_time current_timestamp current_timezone current_user date date_add date_diff
    date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname
    dayofmonth dayofweek dayofyear decimal decode degrees div double e element_at elt encode endswith equal_null
    exists exp expm1 extract factorial filter find_in_set flatten float floor forall format_number format_string
    from_base32 from_csv from_json from_unixtime from_utc_timestamp get get_json_object getbit greatest hash hex
    hmac hour hypot if ifnull ilike in initcap instr int is_valid_utf8 is_valid_variant is_variant_null isnan
    isnotnull isnull jaro_winkler_similarity json_array_length json_object_keys last_day lcase least left len
    length levenshtein like ln localtime localtimestamp locate log log10 log1p log2 lower lpad ltrim luhn_check
    make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz
    make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries map_filter map_from_arrays
    map_from_entries map_keys map_values map_zip_with mask md5 minute mod month monthname months_between
    named_struct nanvl negative next_day not now nullif nullifzero nvl nvl2 octet_length or overlay parse_json
    parse_url pi pmod position positive pow power printf quarter quote radians raise_error reduce regexp
    regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat
    replace reverse right rint rlike round rpad rtrim sec second sentences sequence session_user sha sha1 sha2
    shiftleft shiftright shiftrightunsigned sign signum sin sinh size slice smallint sort_array soundex space
    split split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid startswith str_to_map
    string struct substr substring substring_index tan tanh time time_bucket time_diff time_from_micros
    time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc timestamp
    timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds tinyint to_base32 to_binary to_char
    to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
    to_utc_timestamp to_varchar to_variant_object transform transform_keys transform_values translate trim trunc
    try_add try_aes_decrypt try_divide try_element_at try_make_interval try_make_timestamp
    try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract
    try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8
    try_variant_array_append try_variant_get try_variant_insert try_variant_set typeof ucase unbase64 unhex
    unix_date unix_micros unix_millis unix_nanos unix_seconds unix_timestamp upper url_decode url_encode user
    validate_utf8 variant_array_append variant_delete variant_get variant_insert variant_set variant_strip_nulls
    vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize weekday
    weekofyear when width_bucket xxhash64 year zeroifnull zip_with
    """.split()
)
"""Spark's built-in row functions without external access, by lower-case name."""

# Words and types before a parenthesis that are not functions.
_SYNTAX = frozenset(
    """
    all any array as asc between bigint binary boolean by byte case char character collate date day dec
    decimal desc distinct div double else end escape every exists false float for from hour if ilike in int integer
    interval is like long map minute month not null numeric on or real regexp rlike second short similar smallint some
    string struct substring then timestamp timestamp_ltz timestamp_ntz tinyint to true try_cast using varchar variant
    void when year xor
    """.split()
)
_STATEMENTS = frozenset("select transform table values from with map reduce".split())
_BUILTIN = ("builtin", "system.builtin")
# Tokens of SQL. All session settings for quotes are checked, because the session's setting is unknown.
_WORD = r"(?P<word>(?:[^\W\d]|[$@])\w*)"
_SKIPPED = r"(?P<skipped>\s+|--[^\r\n]*|/\*(?:[^*]|\*(?!/))*\*/)"


def require_known_functions(sql: str, what: str) -> None:
    """Validate one SQL expression: only functions of FUNCTIONS, and no sub-query. `what` names it in messages.

    Raises UnsupportedFeature, naming the forbidden function. Text that Spark cannot parse is accepted, because it never
    runs.
    """
    for escapes, double_quoted in product((True, False), repeat=2):
        tokens = list(_tokens(sql, escapes, double_quoted))
        for at, (kind, text) in enumerate(tokens):
            following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
            if kind == "word" and text.lower() in ("select", "over", "lateral"):
                raise _refused(what, sql, f"{text.upper()} is not allowed in an expression over one row")
            if text == "(" and following.lower() in _STATEMENTS and not _is_call(tokens, at + 1):
                raise _refused(what, sql, f"it contains a query ({following.upper()} …)")
            if text == "(" and at and kind == "sign":
                _require_known(tokens, at - 1, what, sql)


def _require_known(tokens: list[tuple[str, str]], at: int, what: str, sql: str) -> None:
    """Validate the function before the parenthesis, if the token at `at` is a function."""
    kind, name = tokens[at]
    if kind == "sign":
        return
    qualified: list[str] = []
    while at >= 2 and tokens[at - 1][1] == ".":
        at -= 2
        qualified.insert(0, tokens[at][1].lower())
    lowered = name.lower()
    if not qualified and kind == "word" and lowered in _SYNTAX:
        return
    if lowered in FUNCTIONS and (not qualified or ".".join(qualified) in _BUILTIN):
        return
    called = ".".join([*qualified, name])
    raise _refused(what, sql, f"the function {called} is not one of the deterministic built-in functions")


def _is_call(tokens: list[tuple[str, str]], at: int) -> bool:
    return tokens[at][1].lower() in FUNCTIONS and at + 1 < len(tokens) and tokens[at + 1][1] == "("


def _tokens(sql: str, escapes: bool, double_quoted: bool) -> Iterator[tuple[str, str]]:
    """Yield words, quoted names and signs, but no string literals.

    `escapes` is true if a backslash in a literal escapes the next character. `double_quoted` is true if double quotes
    delimit names, not literals.
    """
    inside = r"(?:[^{0}\\]|\\.)*" if escapes else "[^{0}]*"
    texts = ["'"] if double_quoted else ["'", '"']
    quoted = ["`", '"'] if double_quoted else ["`"]
    raw = "|".join(f"[rR]{q}[^{q}]*{q}" for q in texts)
    plain = "|".join(q + inside.format(q) + q for q in texts)
    names = "|".join(f"{q}(?:[^{q}]|{q}{q})*{q}" for q in quoted)
    pattern = re.compile(f"{_SKIPPED}|(?P<text>{raw}|{plain})|(?P<name>{names})|{_WORD}|(?P<sign>.)", re.DOTALL)
    for found in pattern.finditer(sql):
        if found.lastgroup == "name":
            yield "name", found[0][1:-1]
        elif found.lastgroup in ("word", "sign"):
            yield str(found.lastgroup), found[0]


def _refused(what: str, sql: str, why: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"{what} ({sql!r}) is not evaluated: {why}. Only expressions over one row with Spark's deterministic built-in "
        "functions, without sub-queries, are supported. Drop it, or write the table with the engine that created it"
    )
