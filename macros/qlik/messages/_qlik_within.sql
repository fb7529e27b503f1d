{#- The condition that a changeSequence is in one of the ranges, each extended by some hours. -#}
{%- macro _qlik_within(seq, ranges, hours=0) -%}
    {%- set conditions = [] -%}
    {%- for first, last in ranges -%}
        {%- do conditions.append(
            seq ~ ' between ' ~ afterimage._qlik_hours_from(first, -hours) ~ ' and '
            ~ afterimage._qlik_hours_from(last, hours)
        ) -%}
    {%- endfor -%}
    {{ return('(' ~ conditions | join(' or ') ~ ')') }}
{%- endmacro -%}


{#- SQL for the changeSequence some hours after another, or before it if the number is negative. -#}
{%- macro _qlik_hours_from(change_seq, hours) -%}
    {%- set seq = afterimage._literal(change_seq) -%}
    {%- if not hours -%}
        {{ return(seq) }}
    {%- endif -%}
    {%- set time -%}
        {{ afterimage._sequence_time(seq) }} + interval {{ hours }} hours + interval {{ 1 if hours > 0 else 0 }} seconds
    {%- endset -%}
    {{ return('coalesce(' ~ afterimage._qlik_seq_at(time) ~ ', ' ~ seq ~ ')') }}
{%- endmacro -%}
