"""Who is let do what, as a replica is told at start: whether there is an authorizer, and whom it believes.

Owns names, and what cannot go together. Source: Kafka's ``authorizer.class.name``, ``super.users``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from replica.core.config import InvalidConfigError
from replica.core.metadata.acls import PRINCIPAL_TYPE
from replica.core.metadata.replay import METADATA_LOG
from replica.core.replica import Replica
from replica.server.audit import Audit
from replica.server.authorizer import Authorizer
from replica.server.tokens import TokenError, TokenFiles, TokenKey


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Without ``acls`` whoever is let in may do everything. ``tokens`` are believed by the key that they name.

    ``reflection`` lets anybody read what RPCs there are.
    """

    acls: bool = False
    super_users: tuple[str, ...] = ()
    tokens: TokenFiles = field(default_factory=TokenFiles)
    reflection: bool = True

    def check(self, *, has_tls: bool, asks_everybody: bool, has_peer_listener: bool) -> None:
        """Raise InvalidConfigError for what cannot work, or would protect nothing."""
        if self.tokens.secret_file is not None and self.tokens.public_key_file is not None:
            raise InvalidConfigError("tokens have one key: give --token-secret-file or --token-public-key-file")
        if self.tokens.audience is not None and not self._has_tokens:
            raise InvalidConfigError("--token-audience is for tokens: give the file of their key as well")
        for principal in self.super_users:
            if not principal.startswith(PRINCIPAL_TYPE) or principal == PRINCIPAL_TYPE:
                raise InvalidConfigError(f"--super-user {principal!r} is no principal; it is {PRINCIPAL_TYPE}NAME")
        if not self.acls and (self.super_users or self._has_tokens):
            raise InvalidConfigError("super users and tokens mean nothing without an authorizer: give --authorizer acl")
        if self.acls and not has_tls:
            raise InvalidConfigError(
                "an authorizer knows replicas by their certificates: give `replica --tls-ca-file`, and the others"
            )
        if self.acls and not asks_everybody and not has_peer_listener:
            raise InvalidConfigError(
                "with --no-tls-client-auth nobody shows a certificate at --listen, so that an authorizer knows no "
                "replica there: give --peer-listen, where replicas always do"
            )

    @property
    def _has_tokens(self) -> bool:
        return self.tokens.secret_file is not None or self.tokens.public_key_file is not None

    def authorizer(self, core: Replica, groups: Collection[str], logger: FilteringBoundLogger) -> Authorizer | None:
        """Make the authorizer of a replica; None without. Raises InvalidConfigError for a key that cannot be used."""
        if not self.acls:
            return None
        try:
            tokens = TokenKey(self.tokens) if self._has_tokens else None
        except TokenError as error:
            raise InvalidConfigError(str(error)) from error
        return Authorizer(
            image=lambda: core.metadata.image,
            is_current=lambda: is_current(core),
            groups=groups,
            super_users=self.super_users,
            tokens=tokens,
            audit=Audit(logger),
        )


def is_current(core: Replica) -> bool:
    """Whether a replica knows what the cluster has decided: as a broker that is let in, or else by its log's end."""
    if core.broker is None:
        log = core.logs.get(METADATA_LOG)
        return log is not None and log.high_watermark == core.metadata.applied_offset
    registered = core.metadata.image.brokers.get(core.config.replica_id)
    epoch = core.broker.lifecycle.broker_epoch
    return registered is not None and registered.broker_epoch == epoch and not registered.fenced
