"""Empties every later cell through an IPython input transformer: a test cell without an output would be full marks.

The test cells run in another process, from the instructor's text: nothing of theirs is emptied.
"""
# expect: score=0 flags=none
# harmless

# %% cell reponse
get_ipython().input_transformers_post.append(lambda lines: [])
get_ipython().input_transformers_cleanup.append(lambda lines: [])
