"""The take-over of a cluster that exists: its verbs, what they decide, and the node code that they alone send."""
