{#- No change of the stream was set aside because it could not be understood. (An erased change is no finding.) -#}
{% test no_rejected_changes(model) %}

select
    change_id,
    change_seq,
    operation,
    reject_reason

from {{ model }}
where reject_reason <> 'erased'

{% endtest %}
