{%- macro _openedge_resets() -%}
    {{ return(
        "('partition dropped', 'partition truncated', 'partition deallocated', 'tenant partition deallocated',"
        ~ " 'tenant partition dropped')"
    ) }}
{%- endmacro -%}
