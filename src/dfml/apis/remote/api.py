"""An API at the other end of a network: what it says on the wire is the protocol's business, all else is here.

Threads wait for several requests at once; every answer is handed on as it arrives, so that the ledger keeps it whatever
becomes of the others. All that can go wrong ends as an `ApiError` that names the API and shows no secret.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, ImageArray, gather, prepare
from dfml.apis.pixels import Images, InputConfig, eight_bit
from dfml.apis.remote.errands import Errands
from dfml.apis.remote.failures import OutOfTime
from dfml.apis.remote.host import Host, HttpRequest, HttpResponse, merged
from dfml.apis.remote.limits import Limits
from dfml.apis.remote.patience import Attempt, Gate, NotSent, TooLarge, judge
from dfml.apis.remote.reading import blotting
from dfml.apis.remote.secrets import Redactor, Secret
from dfml.apis.scores import OutputConfig, Scores, probabilities
from dfml.apis.wire import AnswerPart, Unwatched, Wire
from dfml.errors import (
    ApiError,
    BadAnswer,
    BudgetExceeded,
    ConfigError,
    DfmlError,
    Garbled,
    RateLimited,
    Refused,
    Unanswered,
    Unreachable,
)

FORM_TRIES = 3
"""how often a form that a server may not know is tried before the next one; a fault may have been the reason"""


class WireFormat(Protocol):
    """One protocol: how images become a request, and a reply becomes scores. Both are pure functions."""

    @property
    def input(self) -> InputConfig:
        """What images look like in it."""
        ...

    @property
    def forms(self) -> Sequence[str]:
        """Ways to say the same; the first that a server understands is used."""
        ...

    @property
    def most(self) -> int | None:
        """Images that a request can hold, where the protocol limits them."""
        ...

    def request(self, images: Images, form: str) -> HttpRequest:
        """The request for images (n, c, h, w)."""
        ...

    def scores(self, reply: HttpResponse, count: int) -> Scores:
        """What a well-formed reply says of `count` images; `Garbled` for any other."""
        ...


class _Images(NamedTuple):
    """What fits into one request, and who is told of it."""

    pixels: ImageArray
    rows: range
    """where they stand in the call"""
    wire: Wire


class RemoteApi:
    """An API at `host`, which is asked in `format`.

    `headers` go with every request; neither they nor `secrets` are ever shown.
    """

    answers_are_checked: Literal[True] = True

    def __init__(
        self,
        spec: ApiSpec,
        format: WireFormat,
        host: Host,
        *,
        output: OutputConfig | None = None,
        limits: Limits | None = None,
        headers: Mapping[str, Secret] | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        self.spec, self.format, self.host = spec, format, host
        self.output, self.limits = output or OutputConfig(), limits or Limits()
        self.gate = Gate(self.limits)
        self.images_per_request = min(self.limits.images_per_request, format.most or self.limits.images_per_request)
        """images that go into a request; less than at first where the server found that too large"""
        self.last_scores: Scores | None = None
        """the scores of the latest answer as they came: `dfml probe` tells from them what the API sends"""
        self._headers = dict(headers or {})
        self._redact = Redactor([*secrets, *(secret.reveal() for secret in self._headers.values())])
        self._proven = threading.Event()

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        return gather(self, images)

    def answers_in_parts(self, images: Tensor) -> Iterator[tuple[Sequence[int], Tensor]]:
        """Rows of `images` and their class probabilities, as they arrive."""
        yield from self.answers_on_wire(images, Unwatched())

    def answers_on_wire(self, images: Tensor, wire: Wire) -> Iterator[AnswerPart]:
        """The same; every try of a request is told to `wire` the moment before it is sent, and how it ended.

        After a failure nothing more is sent, but what is under way is waited for: it will have been paid for.
        """
        # In threads operations of torch cost more, and image by image those of NumPy do, too.
        ready: ImageArray = prepare(self.spec, images).detach().cpu().numpy()
        if self.format.input.levels == 256:
            ready = eight_bit(ready)
        stopped = self.gate.begin()
        errands = Errands(
            len(ready),
            lambda rows: self._ask_if_it_fits(_Images(ready[rows.start : rows.stop], rows, wire), stopped),
            lambda: self.images_per_request,
            name=f"dfml {self.spec.name}",
        )
        failure: BaseException | None = None
        try:
            # The first request goes alone: if the manifest is wrong, one refusal is enough.
            while errands.staff(self.limits.concurrency if self._proven.is_set() else 1):
                rows, answers = list[range](), list[Tensor]()
                for outcome in errands.outcomes():
                    failure = failure or outcome.error
                    if outcome.answers is not None:
                        rows.append(outcome.rows)
                        answers.append(outcome.answers)
                if len(answers) == 1:
                    yield rows[0], answers[0]
                elif answers:  # what came together is kept together
                    yield list(chain.from_iterable(rows)), torch.cat(answers)
        except KeyboardInterrupt:
            self.gate.stop()  # no thread waits for a server to come back
            raise
        finally:
            for outcome in errands.left():  # what came too late to be handed on is paid for, too
                if outcome.answers is not None:
                    wire.rescue(outcome.rows, outcome.answers)
        if failure is not None:
            raise failure

    @property
    def requests_per_second(self) -> float | None:
        """The rate limit of the manifest."""
        return self.limits.rate

    def reach(self) -> None:
        """Return if there is a server at all, else `ApiError`. Nothing is sent, so it costs no query."""
        try:
            self.host.check_connection(seconds=min(self.limits.timeout, 10.0))
        except ApiError as error:
            raise self._named(error) from None

    def rest(self) -> None:
        """Give idle connections back; the next request opens new ones."""
        self.host.close()

    def close(self) -> None:
        """End all waiting and give the connections back, because the run ends; another may follow."""
        self.gate.stop()
        self.host.close()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("gate", "last_scores", "_proven")}

    def __setstate__(self, state: dict[str, Any]) -> None:  # what it has learned of the server stays in its process
        self.__dict__.update(state, gate=Gate(state["limits"]), last_scores=None, _proven=threading.Event())

    def _ask_if_it_fits(self, images: "_Images", stopped: threading.Event) -> Tensor | None:
        """Probabilities (n, k), or None where the server found so many images too large for one request."""
        try:
            return self._ask(images, stopped)
        except TooLarge:
            if len(images.rows) == 1:
                raise
            self.images_per_request = min(self.images_per_request, (len(images.rows) + 1) // 2)
            return None

    def _ask(self, images: "_Images", stopped: threading.Event) -> Tensor:
        """Probabilities (n, k) for images that fit into one request."""
        attempt = Attempt(stopped)
        try:
            known = (
                self.host.knows.get(type(self.format).__name__) if len(self.format.forms) > 1 else self.format.forms[0]
            )
            with blotting(self._redact):
                answer = self._persist(images, known, attempt) if known else self._discover(images, attempt)
        except ApiError as error:
            raise self._named(error) from None
        except ConfigError as error:
            raise ConfigError(self._redact(str(error))) from None
        self._proven.set()
        return answer

    def _discover(self, images: "_Images", attempt: Attempt) -> Tensor:
        """Try the format's forms, best first, and remember for all APIs of the server which one it understands.

        What is tried in vain counts like any other try, so that no server is asked more often for having forms.
        """
        *uncertain, last = self.format.forms
        for form in uncertain:
            for _ in range(min(FORM_TRIES, 1 + self.limits.retries)):
                try:
                    answer = self._patient(images, form, attempt)
                except (TooLarge, NotSent):
                    raise
                except Refused:
                    break
                except (Unreachable, Garbled) as error:
                    attempt.count(error)
                else:
                    self.host.knows[type(self.format).__name__] = form
                    return answer
        answer = self._persist(images, last, attempt)
        self.host.knows.setdefault(type(self.format).__name__, last)
        return answer

    def _persist(self, images: "_Images", form: str, attempt: Attempt) -> Tensor:
        """Exchange, and again after failures that may pass, until the gate says that it is enough."""
        before = ""
        while True:
            try:
                return self._patient(images, form, attempt)
            except NotSent:
                raise
            except BudgetExceeded as error:
                raise BudgetExceeded(f"{error}{before}") from None
            except (Unreachable, Garbled) as error:
                self.gate.failed(error, attempt)
                before = f", after: {error}"

    def _patient(self, images: "_Images", form: str, attempt: Attempt) -> Tensor:
        """Exchange, and again for as long as the server asks us to wait and the gate is willing."""
        while True:
            try:
                return self._exchange(images, form, attempt)
            except RateLimited as error:
                self.gate.failed(error, attempt)

    def _exchange(self, images: "_Images", form: str, attempt: Attempt) -> Tensor:
        self.gate.enter(attempt)
        message = self.format.request(images.pixels, form)
        headers = merged(message.headers, {name: secret.reveal() for name, secret in self._headers.items()})
        request, count = images.wire.sending(images.rows), len(images.rows)
        try:
            reply = self.host.send(
                HttpRequest(message.method, message.url, headers, message.body), seconds=self.limits.timeout
            )
            judge(reply)
            scores = self.format.scores(reply, count)
            self.gate.answered()
            self.last_scores = scores
            return probabilities(self.spec, self.output, scores, count)
        except DfmlError as error:  # anything else leaves the ledger in doubt
            images.wire.ended(request, error)
            if isinstance(error, OutOfTime):
                raise Unanswered(f"{error}; if it needs longer, raise limits.timeout") from None
            raise

    def _named(self, error: ApiError) -> ApiError:
        """The same error with the API's name in front and without secrets."""
        sentence = self._redact(str(error)).removeprefix(f"{self.spec.name}: ")
        kinds = (BudgetExceeded, TooLarge, Refused, Garbled, BadAnswer, RateLimited, Unanswered, Unreachable)
        kind = next((kind for kind in kinds if isinstance(error, kind)), ApiError)
        return kind(f"{self.spec.name}: {sentence}")
