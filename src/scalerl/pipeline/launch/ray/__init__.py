"""The launcher for a Ray cluster: the trainer's ranks and several generators as actors, supervised from here.

    drive       on the side of the command: starts the first rank, hears of the run, starts it again if it dies
    trainer     the actor that trains: the session of a run, with generators and the other ranks as actors of its own
    fleet       its generators: who writes what, and what happens when one dies
    generator   the actor that writes rollouts
    cluster     everything that is said to Ray: no other file imports it
    room        whether all actors find a place, and what is missing
    words       what Ray has and says, in one line

Nothing is imported here: an actor starts sooner.
"""
