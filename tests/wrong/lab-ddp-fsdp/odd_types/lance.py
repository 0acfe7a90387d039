import atexit
def f():
    print('ESSAI {"nom": ["a"], "leve": 1, "texte": 3}', flush=True)
    print('ESSAI {"nom": "panne", "leve": 1, "texte": 3, "vivants": "x", "ligne": {}, "imprime": 4}', flush=True)
    print('ESSAI {"nom": "collés", "rendu": [{"rang": [], "lu": 3}, {"rang": 0, "jeton": "a", "lu": [1]}]}', flush=True)
    print('ESSAI {"nom": "prête", "imprime": 4, "leve": 3, "texte": []}', flush=True)
    print('ESSAI {"nom": "une carte", "leve": 3, "texte": []}', flush=True)
atexit.register(f)
def lance(*a): pass
def carte_de_travail(): pass
