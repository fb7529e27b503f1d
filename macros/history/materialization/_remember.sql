{#- What the table remembers of the changes that it has taken in.

    Which changes: all up to `until` (microseconds of `ingested_at`), and those of the later `runs`. The runs of the
    last day are kept one by one, because a staging run that began earlier may commit later than another.

    What they hold: the last place, whether the source table was ever truncated, which columns were ever absent,
    whether rows may have taken each other's keys, and whether a key change ever lacked a column. (A table built by
    an earlier release does not say the last two; they count as true.) -#}
{%- macro _remember(taken_in, pending) -%}
    {%- set day = 24 * 60 * 60 * 1000000 -%}
    {#- A sample (`--sample`) leaves changes out, so the next run reads its runs again. -#}
    {%- set new_runs = [] if invocation_args_dict.sample else pending.runs -%}
    {%- set known = taken_in or {
        'until': 0, 'runs': [], 'max_seq': '', 'truncates': false, 'trades': false, 'carries': false,
        'sparse_columns': [],
    } -%}
    {%- set runs = (known.runs + new_runs) | unique | sort | list -%}
    {#- A time in the future must not hide the runs until then. -#}
    {%- set now = (run_started_at.timestamp() * 1000000) | int -%}
    {%- set newest = [runs[-1] if runs else 0, now] | min -%}
    {%- set oldest_kept = runs[-1000] if runs | length > 1000 else 0 -%}
    {%- set until = [known.until, newest - day, oldest_kept] | max -%}
    {#- Jinja ignores case by default, but columns and places differ by case. -#}
    {%- set sparse = known.sparse_columns + pending.sparse_columns -%}
    {{ return({
        'until': until,
        'runs': runs | select('gt', until) | list,
        'max_seq': [known.max_seq, pending.max_seq or ''] | max(case_sensitive=true),
        'truncates': known.truncates or pending.truncates > 0,
        'trades': known.get('trades', true) or pending.trades,
        'carries': known.get('carries', true) or pending.sparse_moves > 0,
        'sparse_columns': sparse | unique(case_sensitive=true) | sort(case_sensitive=true) | list,
    }) }}
{%- endmacro -%}
