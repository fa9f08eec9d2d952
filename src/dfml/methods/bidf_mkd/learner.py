"""The loop of alg:blackboxDFML: one run of BiDf-MKD, from the first visit to the product."""

import time
from dataclasses import replace

import torch
from torch import Tensor

from dfml.apis.blackbox import BlackBox, rest
from dfml.apis.ledger import Affordability, Metered
from dfml.episode import EpisodeSpec
from dfml.errors import ApiError, BadAnswer, BudgetExceeded, Garbled, Refused, Unreachable
from dfml.events import ApiFailed, BudgetSpent, FellShort, LearningStarted, Replayed, Step, Visited
from dfml.initialisation import Initialisation
from dfml.losses import distillation_kl, released_divergence
from dfml.meta.adam import adam
from dfml.meta.distil import diagnose, distillation_task
from dfml.meta.memory import PARTS, Part, TaskMemory
from dfml.meta.replay import meta_gradient
from dfml.meta.state import LearnerState
from dfml.meta.tasks import mean_gradient
from dfml.methods import Workplace
from dfml.methods.bidf_mkd.boundary import boundary_student
from dfml.methods.bidf_mkd.schedule import Plateau, Rota, visits_due
from dfml.methods.bidf_mkd.settings import BidfMkdConfig
from dfml.methods.budgets import nothing_learned
from dfml.methods.footprint import activation_bytes
from dfml.nets.functional import Net, Params, head_for, normalise
from dfml.nets.statistics import batch_statistics
from dfml.recovery.choice import recover
from dfml.recovery.objectives import StudentLogits
from dfml.recovery.recovered import RecoveredSet
from dfml.rng import stream
from dfml.runtime import cores

CHECKPOINT_SECONDS = 20.0
RETRY_ITERATIONS = 20
"""how long learning goes on by replay before an API that failed is asked again"""
KEPT_BYTES = 1 << 29
"""Where the inner loops of a meta-batch would keep more, they are computed twice: a fifth more time, the same bits."""
NEVER = 2**40
"""an iteration that does not come: an API that refuses our requests is not asked again in this run"""


def run(config: BidfMkdConfig, place: Workplace, *, method: str = "bidf-mkd") -> Initialisation:
    """Learn theta; what the run folder holds already is taken up where it ended."""
    return Learner(config, place, method).run()


class Learner:
    """One run. Random draws come from streams named by purpose and number, so that any iteration can be redone."""

    def __init__(self, config: BidfMkdConfig, place: Workplace, method: str) -> None:
        self.config, self.place, self.method = config, place, method
        self.device = place.hardware.device
        self.net = Net(config.net.spec, mixed=place.hardware.mixed)
        self.task = EpisodeSpec(way=config.net.way, shot=config.replay.shot, query=config.replay.query)
        self.apis = {api.spec.name: api for api in place.apis}
        self.affordable = {api.spec.name: Affordability(api) for api in place.apis}
        self.workers = min(cores(), config.replay.batch)
        self.divergence = distillation_kl if config.distil.divergence == "kl" else released_divergence
        self.recovered = place.run.recovered
        self.recovered.mkdir(exist_ok=True)
        if place.run.resumed and place.run.checkpoint.exists():
            self.state = LearnerState.load(place.run.checkpoint, device=self.device)
        else:
            notes = {"visits": [], "failed": {}, "best": 0.0, "since": 0, "spent": False}
            start = config.net.begin(place.seed, device=self.device)
            self.state = LearnerState.fresh(start, notes)
        self.memory = self._remember()
        names = list(self.apis)
        order = torch.randperm(len(names), generator=stream(place.seed, "order")).tolist()
        failed = {name: at for name, at in self.state.notes["failed"].items() if self.memory.counts and at != NEVER}
        if place.run.finished:  # it fell short because of them, and somebody thinks that it need not
            failed = {}
        self.rota = Rota([names[i] for i in order], failed_at=failed)
        self.reason = ""
        """what the last API that failed said"""
        for name in self.state.notes["visits"]:
            self.rota.visits[name] = self.rota.visits.get(name, 0) + 1
        self.plateau = Plateau(config.schedule.plateau, self.state.notes["best"], self.state.notes["since"])

    def run(self) -> Initialisation:
        """The loop of alg:blackboxDFML."""
        iterations, begun = self._until(), self.state.iteration
        self.place.emit(
            LearningStarted(
                method=self.method,
                apis=len(self.apis),
                iterations=iterations,
                budget=self.place.budget,
                resumed_at=begun,
                visits=max(0, self.config.schedule.visits - len(self.state.notes["visits"])),
            )
        )
        saved, completed = time.monotonic(), self._snapshot()
        try:
            while self.state.iteration < iterations:
                self._iterate(self.state.iteration)
                self.state.iteration += 1
                completed = self._snapshot()
                if time.monotonic() - saved > CHECKPOINT_SECONDS:
                    completed.save(self.place.run.checkpoint)
                    saved = time.monotonic()
        finally:  # also on Ctrl-C: an iteration that was cut off is redone, with answers from the ledger
            completed.save(self.place.run.checkpoint)
        done, planned = len(self.state.notes["visits"]), self.config.schedule.visits
        if done < planned and self.rota.failed_at:
            self.place.emit(FellShort(got=done, planned=planned, what="visits", reason=self.reason))
        return Initialisation(self.state.params, self.net.spec, self._statistics())

    def _until(self) -> int:
        """The iteration at which learning ends. A run that fell short of visits and is resumed gets time for them."""
        iterations, visits = self.config.schedule.iterations, self.config.schedule.visits
        until = int(self.state.notes.get("until", iterations))
        missing = visits - len(self.state.notes["visits"])
        if self.place.run.finished and self.state.iteration >= until and missing > 0:
            until = self.state.iteration + missing * max(1, iterations // visits)
        self.state.notes["until"] = until
        return until

    def _iterate(self, iteration: int) -> None:
        if self._wants_visit(iteration):
            # An API that fails costs this iteration its visit, unless there is nothing to replay: then the next one is
            # tried at once.
            while (name := self._next_api(iteration)) is not None:
                try:
                    self._visit(iteration, name)
                    return
                except ApiError as error:
                    # A budget may end in the middle of a set: where answers were unusable and were asked for again.
                    useless = isinstance(error, BadAnswer | Refused | BudgetExceeded) and not isinstance(error, Garbled)
                    self.rota.failed(name, NEVER if useless else iteration)
                    self.reason = str(error)
                    self.place.emit(ApiFailed(iteration=iteration, api=name, reason=self.reason))
                if self.memory.counts:
                    break
        if self.config.components.replay and self.memory.ready(self.task):
            self._replay(iteration)
        elif not self.memory.counts and self.rota.failed_at:
            raise Unreachable(
                f"no API answered, so there is nothing to learn from ({len(self.rota.failed_at)} failed, the last: "
                f"{self.reason}); put that right, then go on with --resume"
            )
        elif not self.state.notes["visits"]:
            raise nothing_learned(self.place.apis, self.reason)

    def _wants_visit(self, iteration: int) -> bool:
        if self.config.schedule.plateau:
            return not self.state.notes["visits"] or self.plateau.reached
        return len(self.state.notes["visits"]) < visits_due(self.config.schedule, iteration)

    def _next_api(self, iteration: int) -> str | None:
        """An API that can pay for a set and is not resting after a failure."""
        number = len(self.state.notes["visits"])
        solvent = [name for name in self.apis if self._pays_for(name, number, "support", None)]
        if not solvent and not self.state.notes["spent"]:
            self.state.notes["spent"] = True
            self.place.emit(BudgetSpent(iteration=iteration, queries=self.place.queries))
        rested = [
            name for name in solvent if iteration - self.rota.failed_at.get(name, -RETRY_ITERATIONS) >= RETRY_ITERATIONS
        ]
        return self.rota.next(rested)

    def _pays_for(self, name: str, number: int, part: str, student: StudentLogits | None) -> bool:
        """Whether the budget pays for the rest of a set, after what is on file of it."""
        return self.affordable[name].pays_for(
            self.config.recovery.queries(self.apis[name].spec.way),
            lambda box: self._recover(box, number, part, student),
            label=(number, part),
        )

    def _visit(self, iteration: int, name: str) -> None:
        """Recover S_i, distil theta_i from it, recover Q_i near the boundary, and step theta (eq:outer)."""
        api = self.apis[name]
        number = len(self.state.notes["visits"])
        before = api.ledger.queries
        net, params = head_for(self.net, self.state.params, api.spec.way)
        support = self._recover(api, number, "support", None)
        query, student = None, None
        if self.config.components.boundary:
            student = boundary_student(net, params, support, self.config.distil, self.divergence)
        if self._pays_for(name, number, "query", student):
            query = self._recover(api, number, "query", student)
        seen = Visited(
            iteration=iteration,
            api=name,
            queries=api.ledger.queries - before,
            support_reached=support.reached,
            query_reached=query.reached if query else 0.0,
        )
        if query is not None and self.config.components.distil:
            task = distillation_task(net, support, query, divergence=self.divergence)
            cfg = self.config.distil
            result = mean_gradient(
                params,
                [task],
                inner_lr=cfg.inner_lr,
                inner_steps=cfg.inner_steps,
                first_order=cfg.first_order,
                recompute=True,  # a support set has hundreds of images; kept, its steps would be most of the memory
            )
            vanish = diagnose(task, result.tasks[0])
            self._step(result.grads, cfg.outer_lr)
            seen = replace(
                seen,
                inner_loss=vanish.inner_loss,
                outer_loss=vanish.outer_loss,
                outer_gradient=vanish.outer_gradient,
            )
        parts: tuple[tuple[Part, RecoveredSet | None], ...] = (("support", support), ("query", query))
        for part, recovered in parts:
            if recovered is not None:
                recovered.save(self.recovered / f"{number:05d}-{part}.safetensors")
                self.memory.add(recovered, part)
        self.rota.visited(name)
        self.plateau.visited()
        self.state.notes["visits"].append(name)
        self.place.emit(seen)
        rest(api)

    def _recover(self, api: BlackBox, number: int, part: str, student: StudentLogits | None) -> RecoveredSet:
        def on_step(step: int, value: float, reached: float, queries: int) -> None:
            self.place.emit(
                Step(
                    stage=f"recovering a {part} set",
                    done=step,
                    total=self.config.recovery.length,
                    objective=value,
                    api=api.spec.name,
                    reached=reached,
                )
            )

        return recover(
            api,
            self.config.recovery,
            rng=stream(self.place.seed, "visit", number, part),
            student=student,
            size=self.config.net.size,
            on_step=on_step if isinstance(api, Metered) else None,
            device=self.device,
        )

    def _replay(self, iteration: int) -> None:
        """One meta-step of MAML on interpolated tasks (eq:memory); no API is needed."""
        cfg = self.config.replay
        rng = stream(self.place.seed, "replay", iteration)
        episodes = [self.memory.sample(self.task, rng).on(self.device) for _ in range(cfg.batch)]
        result = meta_gradient(
            self.net,
            self.state.params,
            episodes,
            inner_lr=cfg.inner_lr,
            inner_steps=cfg.inner_steps,
            first_order=cfg.first_order,
            recompute=self._replay_bytes > KEPT_BYTES,
            workers=self.workers,
        )
        self._step(result.grads, cfg.outer_lr)
        self.plateau.saw(result.accuracy)
        self.place.emit(Replayed(iteration=iteration, loss=round(result.loss, 5), accuracy=round(result.accuracy, 4)))

    @property
    def _replay_bytes(self) -> int:
        """What the inner loops of a meta-batch would keep, roughly."""
        passes = self.workers * self.task.way * self.task.shot * self.config.replay.inner_steps
        return passes * activation_bytes(self.net.spec)

    def _step(self, grads: Params, lr: float) -> None:
        # A head that was made for one API of another way is not part of theta and gets no step.
        fitting = {
            name: grads[name] if grads[name].shape == p.shape else torch.zeros_like(p)
            for name, p in self.state.params.items()
        }
        self.state.params, self.state.adam = adam(self.state.params, fitting, self.state.adam, lr=lr)

    def _remember(self) -> TaskMemory:
        """The memory as it was: every set that a completed visit recovered, in order."""
        cfg = self.config.memory
        memory = TaskMemory(
            capacity_per_class=cfg.capacity,
            merge_by_name=cfg.merge_by_name,
            require_agreement=cfg.require_agreement,
            roles=cfg.roles,
        )
        for number in range(len(self.state.notes["visits"])):
            for part in PARTS:
                path = self.recovered / f"{number:05d}-{part}.safetensors"
                if path.exists():
                    memory.add(RecoveredSet.load(path), part)
        return memory

    def _snapshot(self) -> LearnerState:
        """The state between two iterations; nothing that happens later changes it."""
        notes = {
            "visits": list(self.state.notes["visits"]),
            "spent": self.state.notes["spent"],
            "until": self.state.notes.get("until", self.config.schedule.iterations),
            "failed": dict(self.rota.failed_at),
            "best": self.plateau.best,
            "since": self.plateau.since,
        }
        return replace(self.state, notes=notes)

    def _statistics(self) -> dict[str, Tensor]:
        """What BatchNorm sees of the recovered images, for classifiers that blend it with their support set's."""
        if not self.memory.ready(self.task):
            return {}
        rng = stream(self.place.seed, "statistics")
        images = torch.cat([self.memory.sample(self.task, rng).query for _ in range(4)])
        return batch_statistics(self.net.spec, self.state.params, normalise(images.to(self.device)))
