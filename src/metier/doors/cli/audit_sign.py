"""`metier audit checkpoint | prove | check | rotate-key`: what can be shown to others, and checked by them."""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TextIO

import click

from metier.catalog.here import owner
from metier.config.settings import Settings
from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of
from metier.errors import StateError
from metier.model.text import one_line
from metier.record.checkpoint import Checkpoint, Known, read_checkpoint, read_known
from metier.record.database import Database, open_if_there
from metier.record.keys import Keys

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)


@click.command("checkpoint")
@click.option("--out", metavar="FILE", help="Write it there too; nothing there is overwritten.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def checkpoint_command(ctx: click.Context, out: str | None, as_json: bool) -> None:
    """Sign the log as it is now, and print the checkpoint. Keep it where the owner of this machine cannot change it."""
    from metier.record.signing import sign_head

    settings = settings_of(ctx)
    with Database.open(settings.database, create=False) as database, written(out) as write:
        checkpoint = sign_head(database, Keys(settings.home), by=owner())
        text = checkpoint.text()
        write(text)
    if as_json:
        import json

        said = {"size": checkpoint.size, "head": checkpoint.head.hex(), "root": checkpoint.root.hex()}
        click.echo(json.dumps({**said, "origin": checkpoint.origin, "at": checkpoint.at, "text": text}))
        return
    click.echo(text, nl=False)


@click.command("prove")
@click.argument("seq", type=click.IntRange(1, 2**63 - 1), required=False)
@click.option(
    "--checkpoint", metavar="FILE", type=_FILE, help="Against this one; the newest in the state otherwise."
)
@click.option(
    "--from", "older", metavar="FILE", type=_FILE, help="Prove that the log of this checkpoint only grew."
)
@click.option("--out", metavar="FILE", help="Write it there instead of printing it.")
@click.pass_context
def prove_command(
    ctx: click.Context, seq: int | None, checkpoint: str | None, older: str | None, out: str | None
) -> None:
    """Prove that record SEQ is in the log, or with --from that the log only grew. `metier audit check` checks it anywhere."""
    from metier.record.proof import proof_text, prove_consistency, prove_inclusion
    from metier.record.signing import stored_checkpoint

    if (seq is None) == (older is None):
        raise click.UsageError("Give either the number of a record, or --from with an older checkpoint.")
    database = open_if_there(settings_of(ctx).database)
    if database is None:
        raise StateError("nothing was recorded yet", remedy="Call something first")
    with database, written(out) as write:
        newer = stored_checkpoint(database) if checkpoint is None else checkpoint_in(checkpoint)
        if newer is None:
            raise StateError("nothing was signed yet", remedy="Run `metier audit checkpoint` first")
        if seq is not None:
            text = proof_text(prove_inclusion(database, seq, newer))
        else:
            text = proof_text(prove_consistency(database, checkpoint_in(older or "-"), newer))
        write(text)
    if out is None:
        click.echo(text, nl=False)


@click.command("check")
@click.argument("proof", metavar="FILE", type=_FILE)
@click.option("--key", metavar="FILE", type=_FILE, help="Public keys; those in the state folder otherwise.")
@click.pass_context
def check_command(ctx: click.Context, proof: str, key: str | None) -> None:
    """Check a proof that `metier audit prove` made. Needs no log: only the proof and a public key."""
    from metier.record.proof import Inclusion, proof_problem, read_proof

    found = read_proof(_text(proof))
    if isinstance(found, str):
        raise click.UsageError(f"{one_line(proof, 200)}: {one_line(found, 200)}.")
    problem = proof_problem(found, keys_for(settings_of(ctx), key))
    if problem:
        click.echo(f"✗ {one_line(problem)}", err=True)
        ctx.exit(exits.PROBLEM)
    if isinstance(found, Inclusion):
        click.echo(f"✓ Record {found.seq} is in the log as it stands in the proof:")
        click.echo(one_line(found.record))
    else:
        click.echo("✓ The newer log begins with the older one, record for record.")


@click.command("rotate-key")
@click.option("--lost", is_flag=True, help="The old key is gone and cannot sign the change.")
@click.pass_context
def rotate_key_command(ctx: click.Context, lost: bool) -> None:
    """Put a new signing key in the place of the old one, which signs the change and is then removed."""
    from metier.record.signing import rotate_key

    settings = settings_of(ctx)
    keys = Keys(settings.home)
    with Database.open(settings.database, create=False) as database:
        new = rotate_key(database, keys, by=owner(), lost=lost)
    click.echo(f"✓ Key {new.id.hex()} signs from now on. Hand on the new line of {keys.folder}/public.keys:")
    click.echo(str(new))


@contextmanager
def written(path: str | None) -> Generator[Callable[[str], None], None, None]:
    """A new file is made first, so that a name that cannot be written stops everything before it is done."""
    if path is None:
        yield lambda text: None
        return
    try:
        opened = open(path, "x", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise click.UsageError(f"{one_line(path, 200)} cannot be made: {error.strerror}.") from None
    try:
        with opened:
            yield lambda text: _write_out(opened, text)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def _write_out(opened: TextIO, text: str) -> None:
    opened.write(text)
    opened.flush()
    os.fsync(opened.fileno())


def checkpoint_in(path: str) -> Checkpoint:
    """The checkpoint in a file."""
    found = read_checkpoint(_text(path))
    if isinstance(found, str):
        raise click.UsageError(f"{one_line(path, 200)} is not a checkpoint: {found}.")
    return found


def keys_for(settings: Settings, path: str | None) -> tuple[Known, ...]:
    """The public keys in a file, or else those that this machine knows."""
    if path is None:
        return Keys(settings.home).known()
    found: list[Known] = []
    for line in filter(None, map(str.strip, _text(path).splitlines())):
        known = read_known(line)
        if isinstance(known, str):
            raise click.UsageError(f"{one_line(path, 200)} holds no public key: {known}.")
        found.append(known)
    if not found:
        raise click.UsageError(f"{one_line(path, 200)} is empty.")
    return tuple(found)


def _text(path: str) -> str:
    try:
        if path == "-":
            return sys.stdin.read()
        with open(path, encoding="utf-8", newline="") as opened:
            return opened.read(1 << 25)
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(
            f"{one_line(path, 200)} cannot be read: {one_line(str(error), 200)}."
        ) from None
