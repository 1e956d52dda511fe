"""The options of the live page of `keyspread run --streaming`, and of what is shown of keys."""

import os
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from keyspread.cli.options.parsers import FILE
from keyspread.errors import InputError

_TOKEN = "KEYSPREAD_PAGE_TOKEN"


def _page(help: str, *names: str, default: str | bool = False, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Live page", show_default=default, **more)


@dataclass(frozen=True)
class PageOptions:
    """Whether and where a live page is served, and whether keys are shown."""

    page: Annotated[bool, _page("Serve a live page of the stream; with --streaming", "--page")] = False
    page_address: Annotated[
        str | None,
        _page(
            "Where the page listens; other hosts than 127.0.0.1 need --page-token",
            default="127.0.0.1, first free port from 4050 on",
            metavar="HOST[:PORT]",
        ),
    ] = None
    page_token: Annotated[
        str | None, _page(f"Who opens the page needs this token; or set {_TOKEN}", metavar="TEXT")
    ] = None
    page_out: Annotated[str | None, _page("Write the page to this file when the stream ends", **FILE)] = None
    hide_keys: Annotated[
        bool, _page("Show hashes instead of keys: on the page, on the screen and in JSON", "--hide-keys")
    ] = False

    def check(self) -> None:
        """Raise an error for what cannot be served, before Spark starts."""
        if not self.page:
            for name, value in (("page-address", self.page_address), ("page-token", self.page_token)):
                if value is not None:
                    raise InputError(f"--{name} has no effect without --page: add it, or leave --{name} out")
        if self.page:
            from keyspread.live_page.server import check_access, check_packages

            check_packages("--page")
            check_access(self.host, self.token)
        if self.page_out is not None:
            folder = os.path.dirname(os.path.abspath(self.page_out))
            if os.path.isdir(self.page_out):
                raise InputError(f"--page-out {self.page_out} is a folder: name a file")
            if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
                raise InputError(f"--page-out {self.page_out} cannot be written: check the folder {folder}")

    @property
    def wanted(self) -> bool:
        """Whether there is a page, live or as a file."""
        return self.page or self.page_out is not None

    @property
    def host(self) -> str:
        """The host of --page-address."""
        return self._address()[0]

    @property
    def port(self) -> int | None:
        """The port of --page-address; None for the first free one."""
        return self._address()[1]

    @property
    def token(self) -> str | None:
        """The token, from the option or the environment."""
        return self.page_token if self.page_token is not None else os.environ.get(_TOKEN) or None

    def _address(self) -> tuple[str, int | None]:
        given = self.page_address
        if given is None:
            return "127.0.0.1", None
        host, colon, port = given.rpartition(":") if not given.endswith("]") else (given, "", "")
        if not colon:
            host, port = given, ""
        host = host.strip("[]")
        if not host or (colon and not (port.isdecimal() and int(port) < 65536)):
            raise InputError(f"--page-address must be HOST or HOST:PORT, such as 127.0.0.1:4050, got {given}")
        return host, int(port) if port else None
