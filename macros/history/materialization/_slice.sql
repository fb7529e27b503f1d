{#- The changes from the first new place on, and those that may change the times there, in a form that lets files be
    skipped. Changes without a timestamp do not matter if they are valid from long ago. -#}
{%- macro _slice(pending, options) -%}
    {{ return(
        "(change_seq >= " ~ afterimage._literal(pending.min_seq)
        ~ " or changed_at > timestamp_micros(" ~ pending.min_time ~ ")"
        ~ " or (changed_at is null and " ~ options.load_valid_from ~ " > timestamp_micros(" ~ pending.min_time ~ ")))"
    ) }}
{%- endmacro -%}
