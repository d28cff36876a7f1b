"""The product's server and the bare handler side by side, ready to be asked."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from bench import bare, policies, processes
from bench.command import CannotMeasure
from bench.ghz import Ghz
from bench.load import Amount, Generator, Load
from bench.processes import Running
from bench.questions import Question, Questions, batches, delimited
from queuegate.v1 import access_pb2, access_pb2_grpc
from queuegate_server.transports.registry import GRPC_ENVIRONMENT

BATCH: Final = 1_000
BARE: Final = "bare handler"
BARE_SET_AS_OURS: Final = "bare handler, gRPC set as ours"
KNOWN: Final = "queuegate, asked before"
NEW: Final = "queuegate, never asked before"
LOADS: Final = (BARE, KNOWN, NEW)

_TIME_LIMIT: Final = 60


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement: the load generator's figures, and the processor time of the server."""

    load: Load
    cpu_seconds: float

    @property
    def cpu_microseconds(self) -> float:
        """The server's processor time per call."""
        return self.cpu_seconds / self.load.calls * 1e6

    @property
    def busy(self) -> float:
        """The fraction of one core that the server used."""
        return self.cpu_seconds / self.load.seconds


class Pair:
    """Both servers, and the questions for them."""

    def __init__(
        self,
        ours: Running,
        bare_handlers: Mapping[str, Running],
        questions: Questions,
        folder: Path,
    ) -> None:
        """Wrap our server, the bare handlers by load, questions about our policy, and a folder for
        files.
        """
        self.ours = ours
        self._bare = bare_handlers
        self.questions = questions
        self._ghz = Ghz(folder)
        self._folder = folder

    def server(self, load: str) -> Running:
        """Return the server for a load."""
        return self._bare.get(load, self.ours)

    def write(self, name: str, messages: Iterable[bytes]) -> Path:
        """Write messages for ghz."""
        file = self._folder / name
        file.write_bytes(delimited(messages))
        return file

    def measure(
        self,
        load: str,
        method: str,
        data: Path,
        amount: Amount,
        generator: Generator | None = None,
    ) -> Measurement:
        """Apply one load to its server, with ghz unless another generator is given."""
        server = self.server(load)
        before = server.cpu_seconds()
        figures = (generator or self._ghz).run(server.address, method, data, amount)
        return Measurement(figures, server.cpu_seconds() - before)

    def make_known(self, asked: Sequence[Question]) -> None:
        """Ask our server, so that its response cache has the answers. Twice, because a full
        generation is replaced, perhaps in the middle of this.
        """
        self.check_answers(asked)
        self.check_answers(asked)

    def check_answers(self, asked: Sequence[Question]) -> None:
        """Ask our server and compare every answer with the expected one."""
        results = [
            result for batch in batches(asked, BATCH) for result in _ask(self.ours, batch).results
        ]
        for question, result in zip(asked, results, strict=True):
            if not result.HasField("decision") or result.decision.allowed != question.allowed:
                raise CannotMeasure(f"{question} was answered by {result}")


@contextmanager
def pair(folder: Path, transport: str = "grpcio", *, set_as_ours: bool = False) -> Iterator[Pair]:
    """Run both servers on the same core until the end of the block. With `set_as_ours`, also run a
    bare one with our server's gRPC settings.

    The bare server gives the answers that ours gave to a question and to a batch.
    """
    folder.mkdir(exist_ok=True)
    specs = policies.generate(policies.MEDIUM)
    policy = folder / "queues.yaml"
    policy.write_text(policies.to_yaml(specs))
    questions = Questions(specs)
    with processes.running(
        processes.queuegate(policy, transport), folder / "ours", on_own_core=True
    ) as ours:
        answers = folder / "answers"
        _keep_answers(ours, questions, answers)
        command = processes.bare(answers, transport)
        commands: dict[str, tuple[list[str], Mapping[str, str]]] = {BARE: (command, {})}
        if set_as_ours:
            set_so = [*command, "--set-as-ours"]
            commands[BARE_SET_AS_OURS] = (set_so, GRPC_ENVIRONMENT)
        with ExitStack() as stack:
            bare_handlers = {
                load: stack.enter_context(
                    processes.running(
                        started, folder / load, on_own_core=True, extra_environment=environment
                    )
                )
                for load, (started, environment) in commands.items()
            }
            yield Pair(ours, bare_handlers, questions, folder)


def alternate(
    rounds: int, measure: Callable[[str], Measurement], loads: Sequence[str] = LOADS
) -> Mapping[str, list[Measurement]]:
    """Measure all loads in each round, in reverse order in every other round."""
    samples: dict[str, list[Measurement]] = {load: [] for load in loads}
    for number in range(rounds):
        for load in loads if number % 2 == 0 else loads[::-1]:
            samples[load].append(measure(load))
    return samples


def _keep_answers(ours: Running, questions: Questions, folder: Path) -> None:
    folder.mkdir()
    asked = questions.mixed(BATCH)
    (batch,) = batches(asked, BATCH)
    results = _ask(ours, batch)
    unary = next(result.decision for result in results.results if result.decision.matched_queue)
    for name, message in ((bare.UNARY, unary), (bare.BATCH, results)):
        (folder / name).write_bytes(message.SerializeToString())


def _ask(
    server: Running, batch: access_pb2.BatchCheckQueueAccessRequest
) -> access_pb2.BatchCheckQueueAccessResponse:
    with grpc.insecure_channel(server.address) as channel:
        stub = access_pb2_grpc.AccessServiceStub(channel)
        return stub.BatchCheckQueueAccess(batch, timeout=_TIME_LIMIT)
