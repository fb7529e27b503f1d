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
    {%- set runs = ((taken_in.runs if taken_in else []) + new_runs) | unique | sort | list -%}
    {#- Jinja ignores case by default, but columns and places differ by case. -#}
    {%- set sparse = (taken_in.sparse_columns if taken_in else []) + pending.sparse_columns -%}
    {%- set newest = runs[-1] if runs else 0 -%}
    {%- set oldest_kept = runs[-1000] if runs | length > 1000 else 0 -%}
    {%- set until = [taken_in.until if taken_in else 0, newest - day, oldest_kept] | max -%}
    {{ return({
        'until': until,
        'runs': runs | select('gt', until) | list,
        'max_seq': [taken_in.max_seq if taken_in else '', pending.max_seq or ''] | max(case_sensitive=true),
        'truncates': (taken_in.truncates if taken_in else false) or pending.truncates > 0,
        'trades': (taken_in.get('trades', true) if taken_in else false) or pending.trades,
        'carries': (taken_in.get('carries', true) if taken_in else false) or pending.sparse_moves > 0,
        'sparse_columns': sparse | unique(case_sensitive=true) | sort(case_sensitive=true) | list,
    }) }}
{%- endmacro -%}
