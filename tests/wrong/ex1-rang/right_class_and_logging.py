"""Right: a class, logging, pieces of one line, assert and RuntimeError."""
#!/usr/bin/env python3
# -*- coding: utf-8 -*-
# TP 1 - Léa Dupré
import argparse
import logging
import os
import sys
from torch import distributed as td

logging.basicConfig(level=logging.INFO, format="[%(levelname)s] %(message)s")
log = logging.getLogger("labo")


class Processus(object):
    def __init__(self, args):
        self.backend = args.backend
        td.init_process_group(args.backend, "env://")
        self.rank = os.environ.get("RANK")
        self.local_rank = os.environ.get("LOCAL_RANK")
        self.world_size = os.environ.get("WORLD_SIZE")
        log.info("variables lues : RANK vaut %s, WORLD_SIZE vaut %s", self.rank, self.world_size)

    def verifie(self):
        if not (int(self.rank) == td.get_rank() and int(self.world_size) == td.get_world_size()):
            raise RuntimeError("RANK ou WORLD_SIZE diverge du process group.")

    def affiche(self):
        print("RANK=", self.rank, sep="", end=" ")
        print("LOCAL_RANK={} WORLD_SIZE={}".format(self.local_rank, self.world_size), end=" ")
        sys.stdout.write("backend=%s\n" % td.get_backend())

    def controle(self):
        assert int(self.world_size) == 2, "Ce laboratoire attend WORLD_SIZE=2."


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="gloo")
    p = Processus(parser.parse_args())
    p.verifie()
    p.affiche()
    p.controle()
    td.barrier()
    td.destroy_process_group()
