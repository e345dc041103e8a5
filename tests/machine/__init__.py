"""What users ask, one thing after another and at random, held against a model of what must become of it.

`deeds` are what is asked, `play` asks it in the pretended world and watches each commit, `model` says what may follow.
The model knows nothing of `batchq.domain`: it is a second opinion.
"""
