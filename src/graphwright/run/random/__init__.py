"""Random operators part by part: the numbers that the whole would have there, whatever the split."""
