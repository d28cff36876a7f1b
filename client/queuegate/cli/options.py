"""The arguments of `queuegate`. Imports nothing slow, so that `--help` is fast."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from queuegate import _validation
from queuegate._address import DEFAULT_ADDRESS, ENVIRONMENT_VARIABLE
from queuegate.cli.terminal import escape
from queuegate.policy.applications import Action
from queuegate.policy.decision import Access

_EPILOG = f"""\
exit status:
  0    access is allowed; the command succeeded
  1    access is denied; the user does not exist; the server is not serving
  2    wrong usage or configuration, such as a partition that does not exist
  3    no answer: the server or the directory is unavailable or too slow

environment:
  {ENVIRONMENT_VARIABLE}           the address of the server, unless --address is given
  QUEUEGATE_CA_FILE           as --tls-ca, if no --tls option is given
  QUEUEGATE_CERTIFICATE_FILE  as --tls-cert
  QUEUEGATE_KEY_FILE          as --tls-key
  QUEUEGATE_SERVER_NAME       as --tls-server-name
  QUEUEGATE_TOKEN_FILE        as --token-file
  NO_COLOR                    if set, disables colours
"""

_DEFAULTS: dict[str, Any] = {
    "address": None,
    "timeout": None,
    "output": "text",
    "tls_ca": None,
    "tls_cert": None,
    "tls_key": None,
    "tls_server_name": None,
    "token_file": None,
}

_OF_YARN = ("queue", "owner", "view_acl", "modify_acl", "target_queue", "real_user")
_OF_SPARK = {
    "properties": "--property",
    "spark_user": "--spark-user",
    "process_user": "--process-user",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with status 2. Unlike argparse, escape control characters."""
        super().error(escape(message))


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        """Print the version, which takes time to look up."""
        from importlib.metadata import version  # noqa: PLC0415

        sys.stdout.write(f"queuegate {version('queuegate')}\n")
        parser.exit()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments given, or else those of the process. Exits with 2 if they are invalid."""
    parser, commands = _parser()
    options, unknown = parser.parse_known_args(arguments, argparse.Namespace(**_DEFAULTS))
    if unknown:
        commands[options.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command == "invalidate" and bool(options.users) == options.all:
        commands["invalidate"].error("give the users to invalidate, or --all")
    if options.command == "app-check" and (fault := _app_check_fault(options)):
        commands["app-check"].error(fault)
    if (options.tls_cert is None) != (options.tls_key is None):
        parser.error("--tls-cert and --tls-key must be given together")
    return options


def _app_check_fault(options: argparse.Namespace) -> str:
    """Return how the arguments of app-check contradict each other; empty if they do not."""
    given = vars(options)
    if options.spark:
        of_yarn = [f"--{name.replace('_', '-')}" for name in _OF_YARN if given[name]]
        if of_yarn:
            allowed = ", ".join(_OF_SPARK.values())
            return f"{', '.join(of_yarn)}: not allowed with --spark, which takes {allowed}"
        if not all("=" in text for text in options.properties):
            return "--property must be NAME=VALUE"
        names = [text.partition("=")[0] for text in options.properties]
        twice = sorted({name for name in names if names.count(name) > 1})
        return f"--property: {', '.join(twice)} is given more than once" if twice else ""
    of_spark = [option for name, option in _OF_SPARK.items() if given[name]]
    if of_spark:
        return f"{', '.join(of_spark)}: only allowed with --spark"
    if not (options.queue and options.owner):
        return "give --queue and --owner, or --spark"
    return ""


def _parser() -> tuple[_Parser, dict[str, _Parser]]:
    """Return the main parser, and those of the commands by name."""
    common = _common()
    parser = _Parser(
        prog="queuegate",
        usage="queuegate [OPTIONS] COMMAND ...",
        description="Ask a queuegate server whether a user may use a queue, and why.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(
        prog="queuegate", dest="command", metavar="COMMAND", required=True
    )

    def command(name: str, text: str, arguments: str = "") -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=text,
            description=text,
            usage=f"queuegate {name} [OPTIONS] {arguments}".rstrip(),
            parents=[common],
            allow_abbrev=False,
        )

    for name, text in (
        ("check", "check whether a user may use a queue"),
        ("explain", "the same, with the evaluated ACLs and the origin of the groups"),
    ):
        asking = command(name, text, "USER QUEUE")
        asking.add_argument("user", metavar="USER")
        asking.add_argument("queue", metavar="QUEUE", help="the full path: root.a.b")
        _add_partition(asking)
        _add_access_and_groups(asking)

    _add_app_check(
        command("app-check", "check whether a user may access an application", "USER ACTION")
    )

    queues = command("queues", "list the configured queues that a user may use", "USER")
    queues.add_argument("user", metavar="USER")
    queues.add_argument(
        "--prefix", default="", metavar="QUEUE", help="only this queue and those below it"
    )
    _add_partition(queues)
    _add_access_and_groups(queues)

    resolve = command("resolve", "resolve the groups of a user", "USER")
    resolve.add_argument("user", metavar="USER")
    resolve.add_argument(
        "--bypass-cache", action="store_true", help="ask the directory instead of the cache"
    )
    _add_partition(resolve)

    invalidate = command("invalidate", "invalidate the cached groups of users", "USER... | --all")
    invalidate.add_argument("users", metavar="USER", nargs="*")
    invalidate.add_argument("--all", action="store_true", help="all users of the partition")
    _add_partition(invalidate)

    policy = command("policy", "show the policy that the server is serving")
    policy.add_argument(
        "--prefix", default="", metavar="QUEUE", help="only this queue and those below it"
    )
    _add_partition(policy)

    command("reload", "make the server reload its configuration")

    health = command("health", "check whether the server is serving")
    health.add_argument("--service", default="", help="one service, by its full name")
    return parser, commands.choices


def _common() -> _Parser:
    """Return the parser of options that are allowed before and after the command. Their defaults
    come from the namespace: those of a command's parser would override options before it.
    """
    common = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    server = common.add_argument_group("server")
    server.add_argument(
        "--address",
        metavar="ADDRESS",
        help=f"HOST:PORT, [IPV6]:PORT or unix:/PATH (default: {DEFAULT_ADDRESS})",
    )
    server.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="how long to wait for an answer (default: 1; reload: 30)",
    )
    server.add_argument(
        "--tls-ca", metavar="FILE", help="use TLS and trust these certificate authorities"
    )
    server.add_argument("--tls-cert", metavar="FILE", help="use TLS with this client certificate")
    server.add_argument(
        "--tls-key", metavar="FILE", help="the private key of the client certificate"
    )
    server.add_argument(
        "--tls-server-name", metavar="NAME", help="the name in the server's certificate"
    )
    server.add_argument("--token-file", metavar="FILE", help="send the bearer token in this file")
    common.add_argument(
        "--output", choices=("text", "json"), help="the output format (default: text)"
    )
    return common


def _add_app_check(asking: argparse.ArgumentParser) -> None:
    asking.add_argument("user", metavar="USER")
    actions = [action.replace("_", "-") for action in Action]
    asking.add_argument("action", metavar="ACTION", choices=actions, help=", ".join(actions))
    asking.add_argument("--queue", default="", help="the queue in which the application runs")
    asking.add_argument("--owner", default="", metavar="USER", help="the user who started it")
    for name in ("view", "modify"):
        asking.add_argument(f"--{name}-acl", default="", metavar="ACL", help=f"its {name} ACL")
    asking.add_argument(
        "--target-queue", default="", metavar="QUEUE", help="the queue to move it to"
    )
    asking.add_argument(
        "--spark",
        action="store_true",
        help="a Spark application, for which Spark's own rules apply",
    )
    asking.add_argument(
        "--property",
        action="append",
        default=[],
        dest="properties",
        metavar="NAME=VALUE",
        help="a property of the Spark application; repeatable",
    )
    asking.add_argument(
        "--spark-user", default="", metavar="USER", help="the user for whom it runs"
    )
    asking.add_argument(
        "--process-user", default="", metavar="USER", help="the owner of its process"
    )
    asking.add_argument("--explain", action="store_true", help="show the evaluated lists")
    _add_partition(asking)
    _add_groups(asking)


def _add_partition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--partition", default="default", metavar="NAME", help="(default: default)")


def _add_access_and_groups(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--access",
        choices=[str(access) for access in Access],
        default=str(Access.SUBMIT),
        help="(default: submit)",
    )
    _add_groups(parser)


def _add_groups(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        dest="groups",
        metavar="GROUP",
        help="a group of the user; repeatable; without any, the server resolves them",
    )
    parser.add_argument(
        "--real-user",
        default="",
        metavar="NAME",
        help="the service that acts for the user, for YARN ACLs that list ~NAME",
    )


def _seconds(text: str) -> float:
    try:
        return _validation.seconds("it", float(text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds above 0 and up to {_validation.MAX_TIMEOUT:.0f}"
        ) from None
