"""The nouns: vocabulary, the declared tables, a run and its analysis."""
