"""ValueProof: that no example's loss depends on another example, proven from the operations of a forward pass.

Autograd's graph (`row_proof`) does not show what is detached, compared, sorted or made of inputs, nor what Python reads
and decides by. This does: it sees every operation while the loss is computed and keeps, for every storage, which
example each byte depends on, by the rules of `value_rules`. Views need no rules: they share a storage. What is not
proven is only in doubt: the audit then asks by values. Sizes that Python reads off shapes are not seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple
from unittest.mock import patch
from weakref import ref

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from sdi.inputs.batches import leaves

from .value_rules import ESCAPES, KEEP_EQUAL, MIXED, UNIFORM, Answer, At, Op, Operand, Rule, Shape, rule_of

READ = ("tolist", "numpy", "__array__", "__dlpack__")  # by which Python sees values without an operation
SCALARS = (int, float, bool, complex, str, bytes, type(None), torch.dtype, torch.device)
MASKS = (torch.bool, torch.uint8)


class Tag(NamedTuple):  # whose hash and comparison are not Python functions: keys hold many
    """What a storage holds: byte k depends on example (k - base) // block % n, where base <= k < end."""

    block: int
    base: int = 0
    end: int | None = None


EQUAL: Literal["equal"] = "equal"  # a constant whose entries are equal; None: any other constant
Mark = Tag | Literal["equal", "mixed"] | None


def find_examples(shape: Shape, steps: Shape, start: int, tag: Tag, n: int) -> At | None:
    """The axis that examples are counted along in a view of a storage, and how many places in a row are one's.

    steps, start: strides and offset, in bytes. None where examples are not counted 0, 1, 2, ... along one axis.

    >>> find_examples((3, 5, 4), (20, 4, 1), 0, Tag(20), 3), find_examples((15, 4), (4, 1), 0, Tag(20), 3)
    ((0, 1), (0, 5))
    >>> find_examples((5, 3, 4), (4, 20, 1), 0, Tag(20), 3), find_examples((2, 5, 4), (20, 4, 1), 0, Tag(20), 3)
    ((1, 1), None)
    """
    block, first = tag.block, start - tag.base
    moving = [(axis, size, step) for axis, (size, step) in enumerate(zip(shape, steps, strict=True)) if size > 1]
    last = first + sum((size - 1) * step for _, size, step in moving)
    if first < 0 or first // block % n or (tag.end is not None and last >= tag.end - tag.base):
        return None
    moving = [(axis, size, step) for axis, size, step in moving if step % (block * n)]  # others stay at an example
    across = [one for one in moving if one[2] >= block or (one[1] - 1) * one[2] >= block]
    if len(across) != 1:
        return None
    axis, size, step = across[0]
    within = sum((size - 1) * step for k, size, step in moving if k != axis)
    inner, room = (1, block) if step == block else (block // step, step)
    if inner * step != block or size % (inner * n) or first % block + within >= room:
        return None
    return axis, inner


class ValueProof(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches the operations of one forward pass over a batch of n examples.

    uses: how many operations had each of these parameters as an argument. dtypes: all that operations on examples gave.
    """

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else PyTorch would wrap `__torch_dispatch__`, at twice the time for an operation, and import its compiler."""
        return False

    def __init__(self, batch: Any, n: int, parameters: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.n = n
        self.uses: Counter[str] = Counter()
        self.dtypes: set[torch.dtype] = set()
        self._parameters = {p.untyped_storage()._cdata: name for name, p in (parameters or {}).items()}
        self.leaked = False  # whether a value of a replayed call that it does not return was used outside of it
        self._in_call = False
        self._inner: set[int] = set()  # what replayed calls have made
        self.escaped = False  # whether Python has seen a value that depends on examples
        self._marks: dict[int, Mark] = {}  # of storages, by number
        self._alive: dict[int, ref[Any]] = {}  # the storages that have one
        self._me = ref(self)
        self._known: dict[Any, list[Mark]] = {}
        for _, x in leaves(batch):
            if isinstance(x, Tensor):
                self._mark_input(x)
            elif not isinstance(x, SCALARS):
                self.escaped = True  # what is made of it is not followed

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            for name in READ:
                stack.enter_context(patch.object(Tensor, name, self._reading(getattr(Tensor, name))))
            stack.enter_context(self)
            yield

    @property
    def follows_plainly(self) -> bool:
        """Whether no replayed call is going on, or has made anything."""
        return not self._in_call and not self._inner

    def made(self, y: Tensor, mark: Mark, parameters: Iterable[Tensor | None]) -> None:
        """An operation that was not seen has made y, of these parameters among others."""
        self.dtypes.add(y.dtype)
        for p in parameters:
            if p is not None and (name := self._parameters.get(p.untyped_storage()._cdata)) is not None:
                self.uses[name] += 1
        self._marks[self._number(y.untyped_storage())] = mark

    def enter_call(self) -> None:
        """A module that is served by replay is called: its outputs are followed, and nothing else that it makes."""
        self._in_call = True

    def leave_call(self, returned: Sequence[Any]) -> None:
        self._in_call = False
        for y in returned:
            if isinstance(y, Tensor):
                self._inner.discard(y.untyped_storage()._cdata)

    def keeps_apart(self, losses: Tensor) -> bool:
        """Whether each loss is proven to depend on its own example alone."""
        mark = self.mark(losses)
        return not self.escaped and isinstance(mark, Tag) and self._find(losses, mark) == (0, 1)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **kwargs) if kwargs else func(*args)
        kind = KINDS.get(id(func))  # by number: an operation's own hash is a Python function
        if kind is None:
            kind = KINDS[id(func)] = _Kind(func)
        if not kind.is_view:
            try:
                self._follow(kind, args, kwargs or {}, out)
            except (NotImplementedError, RuntimeError):  # tensors without a storage
                self.escaped = True
        return out

    def _follow(self, kind: _Kind, args: Any, kwargs: Any, out: Any) -> None:
        """Mark what an operation has made. Plain loops: this runs at every operation, and a generator costs as much."""
        tensors = _tensors_in((*args, *kwargs.values()) if kwargs else args)
        of, parameters = self._marks, self._parameters
        given, marks, follows, equal = [], [], False, True
        for x in tensors:
            storage = x.untyped_storage()._cdata
            mark = of.get(storage)
            given.append(storage)
            marks.append(mark)
            if mark is not EQUAL:
                equal = False
                if mark is not None:
                    follows = True
            if storage in parameters:
                self.uses[parameters[storage]] += 1
        outs = [out] if isinstance(out, Tensor) else _tensors_in(out) if isinstance(out, (list, tuple)) else []
        if self._in_call:
            for y in outs:
                self._inner.add(self._number(y.untyped_storage()))
        elif self._inner:
            self.leaked |= not self._inner.isdisjoint(given)
        if kind.uniform and (len(tensors) < 2 or marks[1] in (None, EQUAL)):
            self._set(kind, outs, [EQUAL] * len(outs))
        elif follows:
            for y in outs:
                self.dtypes.add(y.dtype)
            if kind.escapes or not outs or (kind.indexes and any(x.dtype in MASKS for x in tensors[1:])):
                self.escaped = True
            if not kind.writes:
                for y in outs:
                    if y.untyped_storage()._cdata in given:
                        return  # what shares a storage with an argument is a view of it
            self._set(kind, outs, self._marks_of(kind, args, kwargs, tensors, marks, outs))
        elif EQUAL in marks:
            self._set(kind, outs, [EQUAL if equal and kind.keeps_equal else None] * len(outs))

    def _marks_of(
        self, kind: _Kind, args: Any, kwargs: Any, tensors: list[Tensor], marks: list[Mark], outs: list[Tensor]
    ) -> list[Mark]:
        """Of the outputs, each as if it filled its storage."""
        if kind.rule is None or MIXED in marks:
            return [MIXED] * len(outs)
        key: list[Any] = [kind, *marks]
        for x in tensors:
            key += x.shape, x.stride(), x.storage_offset(), x.dtype
        if kind.indexes:
            key += [self._counts(x) for x in tensors[1:]]
        for x in args:
            if not isinstance(x, Tensor):
                _add_plain(key, args)
                break
        if kwargs:
            _add_plain(key, kwargs.items())
        known = self._known.get(found := tuple(key))
        if known is None:
            answers = self._answers(kind, args, kwargs, outs)
            known = self._known[found] = [self.tag(y, answer) for y, answer in zip(outs, answers, strict=True)]
        return known

    def _answers(self, kind: _Kind, args: Any, kwargs: Any, outs: list[Tensor]) -> list[Answer]:
        assert kind.rule is not None
        mixed: list[Answer] = [MIXED] * len(outs)
        try:
            given = {name: self._operand(value) for name, value in kind.bind(args, kwargs).items()}
            answer = kind.rule(Op(given, [Operand(tuple(y.shape), y.stride()) for y in outs]))
        except (_Unplaced, KeyError, IndexError, AttributeError, TypeError, ValueError):  # or arguments we do not know
            return mixed
        each: list[Answer] = answer if isinstance(answer, list) else [answer] * len(outs)
        return each if len(each) == len(outs) else mixed

    def _operand(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._operand(x) for x in value]
        if not isinstance(value, Tensor):
            return value
        mark = self.mark(value)
        at = self._find(value, mark) if isinstance(mark, Tag) else None
        if at is None and isinstance(mark, Tag):
            raise _Unplaced
        return Operand(tuple(value.shape), value.stride(), at, mark is EQUAL, value.dtype in MASKS, self._counts(value))

    def _counts(self, x: Any) -> bool:
        """Whether it is the constant 0, 1, ..., n - 1."""
        constant = isinstance(x, Tensor) and x.shape == (self.n,) and x.dtype is torch.long and self.mark(x) is None
        return constant and torch.equal(x, torch.arange(self.n, device=x.device))

    def place(self, x: Tensor) -> At | None:
        """The axis that examples are counted along, if they are, and how many places in a row are one's."""
        mark = self.mark(x)
        return self._find(x, mark) if isinstance(mark, Tag) else None

    def tag(self, y: Tensor, answer: Answer) -> Mark:
        """What the storage of y holds, where examples are as `answer` says."""
        if answer == MIXED:
            return MIXED
        axis, inner = answer
        block = inner * y.stride(axis) * y.element_size()
        tag = Tag(block)
        return tag if block and self._find(y, tag) == answer else MIXED

    def _set(self, kind: _Kind, outs: list[Tensor], marks: list[Mark]) -> None:
        for y, mark in zip(outs, marks, strict=True):
            storage = y.untyped_storage()
            if kind.writes and y.numel() * y.element_size() != storage.nbytes():
                mark = self._joined(y, mark)
            self._marks[self._number(storage)] = mark

    def _number(self, storage: torch.UntypedStorage) -> int:
        """A storage's number. What is known of it is forgotten when it dies: another may then get the number.

        PyTorch's own weak reference would keep the number, but with it a piece of memory between large ones, which then
        are not one when they are free: more page faults (docs/results/scalability, what the audit adds).
        """
        number = storage._cdata
        if number not in self._alive:
            self._alive[number] = ref(storage, partial(_forget, self._me, number))
        return number

    def _joined(self, y: Tensor, mark: Mark) -> Mark:
        """Of a storage of which a part, y, was written over."""
        old = self.mark(y)
        if isinstance(old, Tag):
            constant = mark is EQUAL and self._find(y, old) is not None  # the same for all examples
            return old if constant or mark == old else MIXED
        if isinstance(mark, Tag):
            return mark if old is EQUAL else MIXED
        return MIXED if MIXED in (old, mark) else None

    def _find(self, x: Tensor, tag: Tag) -> At | None:
        size = x.element_size()
        steps = tuple(step * size for step in x.stride())
        return find_examples(tuple(x.shape), steps, int(x.storage_offset()) * size, tag, self.n)

    def mark(self, x: Tensor) -> Mark:
        """Of the storage of a tensor."""
        return self._marks.get(x.untyped_storage()._cdata)

    def _mark_input(self, x: Tensor) -> None:
        """A tensor of the batch. One without a row for each example is shared by all."""
        if x.dim() == 0 or len(x) != self.n or not x.numel():
            return
        size = x.element_size()
        block, start = x.stride(0) * size, int(x.storage_offset()) * size
        mark: Mark = MIXED
        for base in (start - start % block, start) if block else ():  # several may be parts of the same rows
            tag = Tag(block, base, base + self.n * block)
            if self._find(x, tag) == (0, 1):
                mark = tag
                break
        storage = x.untyped_storage()
        before = self._marks.get(storage._cdata, mark)
        self._marks[self._number(storage)] = mark if before == mark else MIXED

    def _reading(self, original: Any) -> Any:
        def read(x: Tensor, *args: Any, **kwargs: Any) -> Any:
            self.escaped |= self.mark(x) not in (None, EQUAL)
            return original(x, *args, **kwargs)

        return read


def _forget(proof: ref[ValueProof], number: int, _: Any) -> None:
    """Called when a storage dies, before its number can be another's."""
    if (me := proof()) is not None:
        me._marks.pop(number, None)
        me._alive.pop(number, None)
        me._inner.discard(number)


class _Unplaced(Exception):
    """A view of examples that are not counted along one axis of it."""


class _Kind:
    """What is known of an operation, whatever its arguments."""

    def __init__(self, func: Any) -> None:
        self.func = func  # which keeps its number from being used again
        schema = getattr(func, "_schema", NO_SCHEMA)
        name = schema.name.rpartition("::")[2]
        returns = [r.alias_info for r in schema.returns]
        self.writes = any(alias is not None and alias.is_write for alias in returns)
        self.is_view = bool(returns) and not self.writes and all(alias is not None for alias in returns)
        self.rule: Rule | None = rule_of(func)
        self.uniform = name in UNIFORM
        self.keeps_equal = self.rule in KEEP_EQUAL
        self.escapes = name in ESCAPES
        self.indexes = name in ("index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_")
        self._names = [argument.name for argument in schema.arguments]
        self._defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}

    def bind(self, args: Any, kwargs: Any) -> dict[str, Any]:
        """Its arguments by name."""
        return {**self._defaults, **dict(zip(self._names, args, strict=False)), **kwargs}


KINDS: dict[int, _Kind] = {}
NO_SCHEMA = SimpleNamespace(name="", returns=(), arguments=())  # operations that take functions


def _tensors_in(values: Sequence[Any]) -> list[Tensor]:
    """Of arguments or results, and of lists among them."""
    found: list[Tensor] = []
    for x in values:
        if isinstance(x, Tensor):
            found.append(x)
        elif isinstance(x, (list, tuple)):
            found += [y for y in x if isinstance(y, Tensor)]
    return found


def _add_plain(key: list[Any], args: Iterable[Any]) -> None:
    """Add arguments to a key: what they are, and of tensors and unknown ones their type."""
    for x in args:
        if isinstance(x, (list, tuple)):
            key.append(len(x))
            _add_plain(key, x)
        else:
            key.append(x if isinstance(x, SCALARS) else type(x))
