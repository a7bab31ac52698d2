"""What the modules of a split model compute in one process, and what they sum or gather from the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import torch

GATHERING_STYLES = {"colwise_gather_output", "colwise_rep"}
SPLIT_STYLES = {"colwise", "rowwise", "rowwise_rep", "embedding_rowwise", *GATHERING_STYLES}


def forward_of(module: Any, style: str, mesh: Any) -> Any:
    """Return the forward of a module that a plan splits in some style, by what holds its own share."""
    kinds: dict[str, type[_Forward]] = dict.fromkeys(GATHERING_STYLES, _GatheringForward)
    kinds["embedding_rowwise"] = _EmbeddingForward
    return kinds.get(style, _SplitForward)(module, style, mesh)


class _Forward:
    """A module's forward that is copied with its module: transformers' holds on to the one it was made for."""

    def __init__(self, module: Any, style: str, mesh: Any) -> None:
        self.module = module
        self.style = style
        self.mesh = mesh
        self.group = mesh.get_group()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(memo.get(id(self.module), self.module), self.style, self.mesh)


class _SplitForward(_Forward):
    """transformers' forward of one style, made anew for each copy of its module, when it is first called."""

    _made: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made(*args, **kwargs)

    def _make(self) -> Any:
        """Let transformers put its forward on the module, and take it from there."""
        from transformers.distributed.tensor_parallel import ALL_PARALLEL_STYLES

        own = self.module.__dict__.pop("forward")
        try:
            ALL_PARALLEL_STYLES[self.style].install_forward(self.module, self.mesh)
            return self.module.__dict__["forward"]
        finally:
            self.module.forward = own


class _EmbeddingForward(_Forward):
    """The forward of an embedding of which each rank has some rows: the others give zeros, and all are summed."""

    def __init__(self, module: Any, style: str, mesh: Any) -> None:
        super().__init__(module, style, mesh)
        rows = -(-module.num_embeddings // mesh.size())  # as DTensor divides: the last rank may have fewer
        self.first = rows * mesh.get_local_rank()

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        import torch.distributed as dist
        from torch.nn import functional

        rows = ids - self.first
        elsewhere = (rows < 0) | (rows >= self.module.weight.shape[0])
        outputs = functional.embedding(rows.masked_fill_(elsewhere, 0), self.module.weight)
        outputs.masked_fill_(elsewhere.unsqueeze(-1), 0)
        dist.all_reduce(outputs, group=self.group)
        return outputs


class _GatheringForward(_Forward):
    """The forward of a linear of whose outputs each rank computes some, and all ranks need all."""

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        import torch
        import torch.distributed as dist
        from torch.nn import functional

        outputs, ranks = self.module.out_features, self.mesh.size()
        own = type(self.module).forward(self.module, inputs)
        if missing := -(-outputs // ranks) - own.shape[-1]:  # all parts are of one size on their way
            own = functional.pad(own, (0, missing))
        parts = own.new_empty((ranks * own.shape[0], *own.shape[1:]))
        dist.all_gather_into_tensor(parts, own.contiguous(), group=self.group)
        return torch.cat(parts.chunk(ranks), dim=-1)[..., :outputs]
