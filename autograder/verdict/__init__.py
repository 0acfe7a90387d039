"""From what a launch left behind to a judgement: pure functions over a `Run`, no process is started here."""
