{#- Runs that would bring the values of erased keys back stop here, before they stage anything. -#}


{#- A seed is empty while it is loaded again. A model that is built beside it would stage the values of erased keys. -#}
{%- macro _check_list_comes_first() -%}
    {%- if not execute or model.resource_type != 'model' or flags.WHICH != 'build'
        or 'seed.' not in selected_resources | join(' ') -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set seed = afterimage._erasures_seed() -%}
    {%- if seed and seed.unique_id in selected_resources and not afterimage._is_above(seed.unique_id, model) -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': the seed ' ~ seed.name ~ ' is the list of erasures, and this run loads it again while the model may be'
            ~ ' built. Write `-- depends_on: {{ ref(' ~ "'" ~ seed.name ~ "'" ~ ') }}` into the model. Or run `dbt seed` first,'
            ~ ' and leave the seed out of this run.'
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Whether a node is above a model. -#}
{%- macro _is_above(id, below) -%}
    {%- set found = {} -%}
    {%- set walk = namespace(last=below.depends_on.nodes | list) -%}
    {%- for _ in graph.nodes if walk.last and id not in found -%}
        {%- set above = [] -%}
        {%- for one in walk.last if one not in found -%}
            {%- do found.update({one: true}) -%}
            {%- do above.extend((graph.nodes.get(one) or {}).get('depends_on', {}).get('nodes', [])) -%}
        {%- endfor -%}
        {%- set walk.last = above -%}
    {%- endfor -%}
    {{ return(id in found or id in walk.last) }}
{%- endmacro -%}


{#- A list that is gone, or has lost all that it had of the model, would bring the values of erased keys back. The
    staging table knows that there were some, also the one that a full refresh replaces. -#}
{%- macro _check_list_is_there(erasures) -%}
    {%- if not execute or erasures or model.resource_type != 'model' or flags.WHICH not in ['run', 'build'] -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set list = afterimage._erasures_table() -%}
    {%- set built = afterimage._load_relation(this) if var('afterimage_erasures', none) or afterimage._erasures_seed()
        or afterimage._load_relation(list) is not none -%}
    {%- if built and 'change_id' in afterimage._relation_columns(built) | map(attribute='name') and run_query(
        'select 1 from ' ~ built ~ " where change_id between 'erased-' and 'erased-~' limit 1"
    ).rows -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': ' ~ list ~ ', the list of erasures, has no key of this model or does not exist, and ' ~ built
            ~ ' has changes of erased keys. Their values would come back. Load the list (`dbt seed`, if it is a seed), or correct'
            ~ ' the var afterimage_erasures. If the model had another name there, write its present one into the column'
            ~ ' `model`.'
            ~ ' If nothing is to stay erased, drop ' ~ built ~ ' and run this again.'
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- A model that got another name has no key in the list, and its table under that name does not exist yet. A run that
    goes on with the table that it has asks nothing. Keys with other columns are not of this model. -#}
{%- macro _check_listed_models(unique_key) -%}
    {%- if not execute or model.resource_type != 'model' or flags.WHICH not in ['run', 'build']
        or (this is not none and not should_full_refresh() and afterimage._load_relation(this) is not none) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set list = afterimage._load_relation(afterimage._erasures_table()) -%}
    {%- if list is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set listed = run_query(
        'select distinct model from ' ~ afterimage._listed_keys(list) ~ " where startswith(erased_key, 'sha256:')"
        ~ ' or array_sort(map_keys(named_values)) = ' ~ afterimage._string_array(unique_key | map('lower') | sort)
    ).rows | map('first') | reject('none') | list -%}
    {%- set names = graph.nodes.values() | map(attribute='name') | list -%}
    {%- for disabled in builtins.ref.manifest.disabled.values() -%}
        {%- do names.extend(disabled | map(attribute='name')) -%}
    {%- endfor -%}
    {%- set gone = listed | reject('in', names) | sort -%}
    {%- if gone -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': ' ~ list ~ ', the list of erasures, has keys of models that this project does not have. If '
            ~ model.name ~ ' had such a name, the values of its erased keys would come back: write its present name'
            ~ ' into the column `model` there. Delete the rows of a model that is gone for good. If it is of another'
            ~ ' project, let the var afterimage_erasures give each project a list of its own. Got: '
            ~ gone | join(', ')
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- A hash is of the text of a key: of 42.00 it is another one than of 42. The table that a full refresh replaces knows
    the types that the hashes were made for. -#}
{%- macro _check_hashed_types(erasures, unique_key) -%}
    {%- if not (erasures and erasures.salt) or model.resource_type != 'model' or flags.WHICH not in ['run', 'build'] -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set built = afterimage._load_relation(this) if not afterimage._is_incremental() -%}
    {%- if not built or 'after' not in afterimage._relation_columns(built) | map(attribute='name') -%}
        {{ return(none) }}
    {%- endif -%}
    {%- for column in afterimage._described('select `after`.* from ' ~ built) -%}
        {%- for name in unique_key if name | lower == column.name | lower -%}
            {%- set type = erasures.types.get(name, erasures.types.get(name | lower)) -%}
            {%- if type and afterimage._text_form(type) != afterimage._text_form(column.type) -%}
                {%- do exceptions.raise_compiler_error(
                    model.name ~ ': ' ~ afterimage._erasures_table() ~ ' has hashes of keys whose column ' ~ name ~ ' was '
                    ~ column.type ~ '. Another type writes them otherwise, so they would not be known again. Give the column its'
                    ~ ' former type, or list these keys again as the new type writes them, and drop ' ~ built ~ '. Got: ' ~ type
                ) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
{%- endmacro -%}


{#- Types with the same form write a value as the same text. -#}
{%- macro _text_form(type) -%}
    {%- set scale = modules.re.fullmatch('decimal[(][0-9]+, ?([0-9]+)[)]', type) -%}
    {%- if type in ['tinyint', 'smallint', 'int', 'bigint'] or (scale and scale.group(1) == '0') -%}
        {{ return('whole number') }}
    {%- endif -%}
    {{ return('decimal with the scale ' ~ scale.group(1) if scale else type) }}
{%- endmacro -%}
