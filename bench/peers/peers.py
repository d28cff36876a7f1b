"""All servers in the comparison, in table order."""

from functools import partial
from typing import Final

from bench.peers.bare import QUEUES, Handler, go_program, python_program
from bench.peers.casbin import Casbin
from bench.peers.cerbos import Cerbos
from bench.peers.contract import Queuegate, QueuegateOverHttp
from bench.peers.opa import Opa
from bench.peers.openfga import OpenFga
from bench.peers.peer import Peer

YARDSTICK: Final = Queuegate("queuegate, grpcio", "grpcio")
"""All others must give the same answers as this one."""

PEERS: Final[tuple[Peer, ...]] = (
    Queuegate("queuegate, native", "native"),
    YARDSTICK,
    Queuegate("queuegate, groups looked up", "grpcio", sends_groups=False),
    QueuegateOverHttp(),
    Cerbos(),
    Opa(),
    OpenFga(),
    OpenFga("OpenFGA, caching", remembers=True),
    Casbin(),
    Handler(
        "YuniKorn's ACLs, grpc-go",
        "`queues.yaml`; groups sent with each question",
        partial(go_program, "yunikorn", "github.com/apache/yunikorn-core"),
        argument=QUEUES,
    ),
    Handler(
        "bare grpc-go", "a constant", partial(go_program, "constant", "google.golang.org/grpc")
    ),
    Handler("bare pygrpc-native", "a constant", partial(python_program, "native"), argument=""),
    Handler("bare grpc.aio", "a constant", partial(python_program, "grpcio"), argument=""),
)
