"""Loaders of tokenised text: padded to one length, with ids; and one query for each token of an example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sdi.arguments import at_least_one, whole
from sdi.inputs.batches import ID, name_examples, take_examples
from sdi.lm.losses import IGNORED, counted

FILL = {"labels": IGNORED, "attention_mask": 0}


class TokenBatches:
    """Batches of tokenised examples, which can be read again; what `token_batches` returns.

    rows: the examples. batch_size: how many in a batch. length: that all are padded to. pad: the token to pad with.

    >>> batches = token_batches({"id": ["a", "b"], "input_ids": [[5, 6, 7], [8]]}, batch_size=2)
    >>> [(batch["id"], batch["input_ids"].tolist()) for batch in batches]
    [(['a', 'b'], [[5, 6, 7], [8, 0, 0]])]
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], batch_size: int, length: int, pad: int) -> None:
        self.rows, self.batch_size, self.length, self.pad = rows, batch_size, length, pad

    def __len__(self) -> int:
        return -(-len(self.rows) // self.batch_size)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self.rows), self.batch_size):
            yield self._batch(self.rows[start : start + self.batch_size])

    def _batch(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        import torch

        out: dict[str, Any] = {}
        for key in rows[0]:
            parts = [row[key] for row in rows]
            if key == ID or isinstance(parts[0], str):
                out[key] = parts
            elif isinstance(parts[0], (list, tuple)):
                fill = FILL.get(key, self.pad if key == "input_ids" else 0)
                out[key] = torch.tensor([[*part, *[fill] * (self.length - len(part))] for part in parts])
            else:
                out[key] = torch.as_tensor(parts)
        return out


def token_batches(
    data: Any,
    *,
    batch_size: int = 8,
    tokenizer: Callable[..., Any] | None = None,
    text: str = "text",
    max_length: int | None = None,
    pad: int | None = None,
    columns: Sequence[str] | None = None,
) -> TokenBatches:
    """Batches for `causal_loss` and `masked_loss`, all padded to one length, so that an example is always the same.

    data: a `datasets.Dataset`, a list of dicts, or a dict of lists (what a tokeniser returns); with "input_ids", or
        with a column of texts and a tokenizer. A column "id" names the examples; without it, their content does.
    batch_size: examples in a batch.
    tokenizer: called with a text, and to return {"input_ids": [...]}. text: the name of the column of texts.
    max_length: longer examples are cut; None: the longest is the length of all.
    pad: the token to pad with, which attention_mask and labels leave out; by default the tokenizer's, or 0.
    columns: the columns to keep; by default input_ids, attention_mask, token_type_ids, labels and id, as far as there.
    Returns a loader that can be read again, of dicts of tensors (batch, length) and a list of ids.
    """
    at_least_one("batch_size", batch_size := whole("batch_size", batch_size))
    if max_length is not None:
        at_least_one("max_length", max_length := whole("max_length", max_length))
    fill = getattr(tokenizer, "pad_token_id", None) if pad is None else whole("pad", pad)
    if columns is not None and "input_ids" not in columns:
        raise ValueError(f"columns must keep 'input_ids', got {list(columns)}")
    kept = ("input_ids", "attention_mask", "token_type_ids", "labels", ID) if columns is None else (*columns,)
    rows = []
    for k, row in enumerate(_rows(data)):
        if "input_ids" not in row and tokenizer is not None:
            if text not in row:
                raise ValueError(f"data has no column {text!r} of texts, only {list(row)}")
            made = tokenizer(row[text])
            if not isinstance(made, Mapping):
                kind = type(made).__name__
                raise TypeError(f'tokenizer must return {{"input_ids": [...]}} for a text, got a {kind}')
            row = {**row, **{key: _plain(value) for key, value in made.items()}}
        if "input_ids" not in row:
            raise ValueError(f"data must have a column 'input_ids', or texts and a tokenizer, got {list(row)}")
        if not _is_row(row["input_ids"]):
            raise ValueError(f"input_ids of example {k} must be a list of tokens, got {row['input_ids']!r}")
        rows.append({key: _cut(row[key], max_length) for key in kept if key in row})
        size = len(rows[-1]["input_ids"])
        if not size:
            raise ValueError(f"example {k} of data has no tokens")
        rows[-1].setdefault("attention_mask", [1] * size)
        if rows[-1].keys() != rows[0].keys():
            raise ValueError(f"all examples must have the same columns: the first has {list(rows[0])}, number {k} "
                             f"{list(rows[-1])}")  # fmt: skip
        for key, value in rows[-1].items():
            if isinstance(value, list) and len(value) != size:
                raise ValueError(f"{key} of example {k} has {len(value)} entries for {size} tokens")
    if not rows:
        raise ValueError("data must hold at least one example, got none")
    return TokenBatches(rows, batch_size, max(len(row["input_ids"]) for row in rows), 0 if fill is None else fill)


def per_token(loader: Iterable[Any], *, batch_size: int = 64, causal: bool = True) -> Iterable[dict[str, Any]]:
    """One query for each token: every example again for each of its counted tokens, with the place as "token".

    Each token's gradient takes a backward pass of its own, so k tokens cost what k examples cost. The id of a token is
    that of its example and its place, from 0: "doc-7[12]". Returns a list-like loader, which can be read again.

    loader: batches as the losses take them. batch_size: queries in a batch.
    causal: whether tokens are predicted from those before, so that the first has no loss.
    """
    at_least_one("batch_size", batch_size := whole("batch_size", batch_size))
    return _PerToken(loader, batch_size, causal)


class _PerToken:
    def __init__(self, loader: Iterable[Any], batch_size: int, causal: bool) -> None:
        self.loader, self.batch_size, self.causal = loader, batch_size, causal

    def __len__(self) -> int:
        counts = [int(counted(batch, self.causal).sum()) for batch in self.loader]
        return sum(-(-count // self.batch_size) for count in counts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for given in self.loader:
            batch, ids, _ = name_examples(given)
            places = counted(batch, self.causal).nonzero()
            for some in places.split(self.batch_size) if len(places) else ():
                rows, token = some[:, 0].tolist(), some[:, 1]
                named = [f"{ids[i]}[{t}]" for i, t in some.tolist()]
                yield {ID: named, **take_examples(batch, rows, len(ids)), "token": token}


def _rows(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, Mapping):
        columns = {key: _plain(value) for key, value in data.items()}
        lengths = {len(value) for value in columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"the columns of data must have one length, got {sorted(lengths)}")
        for k in range(lengths.pop() if lengths else 0):
            yield {key: value[k] for key, value in columns.items()}
    elif hasattr(data, "__iter__") and not isinstance(data, str):
        for row in data:
            if not isinstance(row, Mapping):
                kind = type(row).__name__
                raise ValueError(f"data must be a Dataset, a list of dicts or a dict of lists, got a list of {kind}")
            yield {key: _plain(value) for key, value in row.items()}
    else:
        raise ValueError(f"data must be a Dataset, a list of dicts or a dict of lists, got {data!r}")


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _is_row(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not any(isinstance(part, (list, tuple)) for part in value)


def _cut(value: Any, length: int | None) -> Any:
    return list(value[:length]) if isinstance(value, (list, tuple)) else value
