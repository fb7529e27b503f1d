{#- The changes at or behind the first place that is new, and those that may change the times there: a condition in a
    form that leaves out files. Changes without a time are no matter where they are valid from long ago. -#}
{%- macro _slice(pending, options) -%}
    {{ return(
        "(change_seq >= " ~ afterimage._literal(pending.min_seq)
        ~ " or changed_at > timestamp_micros(" ~ pending.min_time ~ ")"
        ~ " or (changed_at is null and " ~ options.load_valid_from ~ " > timestamp_micros(" ~ pending.min_time ~ ")))"
    ) }}
{%- endmacro -%}
