{{ config(materialized='table') }}

{#- A UDF called by hand: which columns each change flagged, as ordinals. -#}
select
    header__change_seq,
    decode_change_mask(header__change_mask, 7) as ordinals

from {{ ref('orders__ct') }}
where header__change_mask is not null
