"""Search over memories: files of a folder, found by their words and by what they mean. Blocking; callers use threads."""
