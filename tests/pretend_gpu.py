"""A GPU for machines without one: a device of its own whose tensors are, in truth, CPU tensors; not a test itself.

Whatever is done to its tensors is done on the CPU, so results are those of the CPU to the last bit. What a GPU refuses
is refused: operations on tensors of two devices, CPU generators that are to draw on it, `.numpy()` of its tensors.
It also remembers what ran on it and what left it.
"""

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
_setup_privateuseone_for_python_backend(NAME)
DEVICE = torch.device(NAME, 0)

_aten = torch.ops.aten
_COPIES = (_aten._to_copy.default, _aten.copy_.default)
_INDEXING = (
    _aten.index.Tensor,
    _aten.index_put.default,
    _aten.index_put_.default,
    _aten._index_put_impl_.default,
)
_JOINING = (_aten.cat.default, _aten.stack.default)


class PretendGpu(TorchDispatchMode):
    """While it is entered, `torch.device("pretend")` can be used."""

    def __init__(self):
        super().__init__()
        self.ran = set()
        """the operations that ran on it"""
        self.left = []
        """the shapes of what was copied back to the CPU"""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if OnGpu not in types and not _is_ours(kwargs.get("device")):
            return operation(*args, **kwargs)
        result, there = _run(operation, args, kwargs)
        if there:
            self.ran.add(operation.overloadpacket.__name__)
        elif operation in _COPIES:
            self.left.append(tuple(result.shape))
        return result


class OnGpu(Tensor):
    """A tensor that says it is on the pretended GPU, and holds the CPU tensor that it really is."""

    held: Tensor

    @staticmethod
    def __new__(cls, held):
        with torch.inference_mode(held.is_inference()):
            tensor = Tensor._make_wrapper_subclass(
                cls,
                held.shape,
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=DEVICE,
            )
        tensor.held = held
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):  # type: ignore[override]
        return _run(operation, args, kwargs or {})[0]  # in threads that the mode does not reach

    def tolist(self):
        return self.detach().cpu().tolist()

    def __repr__(self, *, tensor_contents=None):
        return f"OnGpu({self.held})"


def _run(operation, args, kwargs):
    """What the operation gives, and whether that is on the pretended GPU."""
    leaves = tree_leaves((args, kwargs))
    ours = [leaf for leaf in leaves if isinstance(leaf, OnGpu)]
    device = kwargs.get("device")
    there = bool(ours) if device is None else _is_ours(device)
    if operation is _aten.copy_.default:
        there = isinstance(args[0], OnGpu)
    if there and any(isinstance(leaf, torch.Generator) for leaf in leaves):
        raise RuntimeError(f"{operation}: a generator of the CPU cannot draw on {DEVICE}")
    if ours and operation not in _COPIES:
        _refuse_strangers(operation, args, leaves)
    inputs, options = tree_map_only(OnGpu, lambda tensor: tensor.held, (args, kwargs))
    if device is not None:
        options = {**options, "device": torch.device("cpu")}
    result = operation(*inputs, **options)
    if not there:
        return result, False
    known = {id(tensor.held): tensor for tensor in ours}  # what is changed in place stays the same object
    return tree_map_only(Tensor, lambda tensor: _wrap(tensor, known), result), True


def _is_ours(device):
    return device is not None and torch.device(device).type == NAME


def _refuse_strangers(operation, args, leaves):
    if operation in _INDEXING and isinstance(args[0], OnGpu):
        return  # a GPU takes indices of the CPU
    strangers = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, OnGpu)]
    if any(stranger.dim() > 0 or operation in _JOINING for stranger in strangers):  # a single number is a scalar
        raise RuntimeError(f"{operation}: expected all tensors on one device, found {DEVICE} and cpu")


def _wrap(tensor, known):
    return known[id(tensor)] if id(tensor) in known else OnGpu(tensor)
