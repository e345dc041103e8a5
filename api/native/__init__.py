"""batchq as it speaks itself: what AWS has no word for."""
