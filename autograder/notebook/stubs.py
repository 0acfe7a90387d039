"""What a hole looks like as long as it is one. Imports nothing: the student's commands must stay quick."""

CODE_STUB = 'raise NotImplementedError("à compléter")'
TEXT_STUB = "Écrivez votre réponse ici."
