"""Right: writes without a newline, so that the ranks' texts glue."""
import os
import sys

import torch.distributed as dist


def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def main(environ=os.environ):
    dist.init_process_group()
    rank, local, world = (int(environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    if [rank, world] != [dist.get_rank(), dist.get_world_size()]:
        sys.exit("RANK ou WORLD_SIZE diverge du process group.")
    say(f"RANK={rank} LOCAL_RANK={local} WORLD_SIZE={world} backend=gloo")
    if world != 2:
        say("Ce laboratoire attend WORLD_SIZE=2.")
        sys.exit(3)
    dist.destroy_process_group()


main()
