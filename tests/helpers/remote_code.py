"""Folders of models whose code is in their repository, as masked-diffusion models come."""

import json
import sys
from importlib import util
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = [
    *("the", "a", "cat", "dog", "man", "woman", "sat", "ran", "is", "was", "on", "in", "at"),
    *("red", "big", "old", "new", "mat", "hat", "car", "house", "of", "and", "to", "it", "he"),
]
MASK, START, END, UNKNOWN = "<|mdm_mask|>", "<|start|>", "<|end|>", "<|unknown|>"
# outputs beyond the tokenizer's
PADDING = 6

CODE = """
import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import MaskedLMOutput


class Config(PretrainedConfig):
    model_type = "{kind}"

    def __init__(self, outputs=40, width=16, timed=False, causal=False, **others):
        self.outputs, self.width, self.timed, self.causal = outputs, width, timed, causal
        self.max_position_embeddings = 24
        super().__init__(**others)


class {name}(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.outputs, config.width)
        self.wpe = nn.Embedding(config.max_position_embeddings, config.width)
        self.attention = nn.MultiheadAttention(config.width, 2, batch_first=True)
        self.dense = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.ff_out = nn.Linear(config.width, config.outputs, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def get_output_embeddings(self):
        return self.ff_out

    def set_output_embeddings(self, layer):
        self.ff_out = layer

    def forward(self, input_ids, attention_mask=None, {time}return_dict=None):
        # as Dream: a mask of two dimensions breaks the attention
        if attention_mask is not None and attention_mask.ndim == 2:
            raise RuntimeError("Expected attn_mask dtype to be bool or float")
        hidden = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        if self.config.timed:
            hidden = hidden + 3 * t[:, None, None]
        mask = None
        if self.config.causal:
            length = input_ids.shape[1]
            mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        hidden = hidden + self.attention(hidden, hidden, hidden, attn_mask=mask)[0]
        return MaskedLMOutput(logits=self.ff_out(self.norm(torch.tanh(self.dense(hidden)))))
"""

SHIFTED_BERT = """
import torch
from transformers import BertForMaskedLM


class Model(BertForMaskedLM):
    def get_output_embeddings(self):
        return self.cls.predictions.decoder

    def forward(self, input_ids, attention_mask=None, return_dict=None):
        output = super().forward(input_ids=input_ids, attention_mask=attention_mask)
        output.logits = torch.cat([output.logits[:, 1:], output.logits[:, -1:]], dim=1)
        return output
"""


def write_model(
    folder: Path,
    *,
    kind: str = "toy_diffusion",
    name: str = "Model",
    mask_id: int | None = None,
    named: str | None = None,
    timed: bool = False,
    causal: bool = False,
    classes: tuple[str, ...] = ("AutoModel", "AutoModelForCausalLM"),
) -> str:
    """A model with random weights; `mask_id` is that of its mask, by default after the words.

    `named`: the tokenizer has a mask token of that name, as Dream's; otherwise none, as LLaDA's.
    """
    folder.mkdir()
    tokenizer = _tokenizer(mask_id, named)
    tokenizer.save_pretrained(folder)
    outputs = len(tokenizer) + PADDING
    code = CODE.format(kind=kind, name=name, time="*, t, " if timed else "")
    (folder / "modeling_toy.py").write_text(code)
    auto_map = {"AutoConfig": "modeling_toy.Config"}
    auto_map |= dict.fromkeys(classes, f"modeling_toy.{name}")
    settings = {"outputs": outputs, "timed": timed, "causal": causal}
    about = {"model_type": kind, "architectures": [name], "auto_map": auto_map}
    (folder / "config.json").write_text(json.dumps({**about, **settings}))
    module = module_of(folder)
    torch.manual_seed(7)
    model = getattr(module, name)(module.Config(**settings))
    with torch.no_grad():
        for part, weight in model.named_parameters():
            weight.normal_(0, 0.7 if part.startswith("ff_out") else 0.5)
    save_file(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


def plain_model(folder: str | Path) -> Any:
    """The model by its own code alone, without the library."""
    from safetensors.torch import load_file

    module, settings = (
        module_of(Path(folder)),
        json.loads((Path(folder) / "config.json").read_text()),
    )
    names = ("outputs", "timed", "causal")
    config = module.Config(**{name: settings[name] for name in names})
    model = getattr(module, settings["architectures"][0])(config)
    model.load_state_dict(load_file(Path(folder) / "model.safetensors"))
    return model.eval()


def module_of(folder: Path) -> Any:
    """The code in a folder, as a module."""
    name = f"toy_{abs(hash(str(folder)))}"
    spec = util.spec_from_file_location(name, folder / "modeling_toy.py")
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def write_shifted_bert(folder: Path, source: Path) -> str:
    """A trained BERT whose logits at position i-1 are about token i, as its own code has it."""
    folder.mkdir()
    for path in source.iterdir():
        if path.name != "README.md":
            (folder / path.name).write_bytes(path.read_bytes())
    settings = json.loads((source / "config.json").read_text())
    settings["auto_map"] = {"AutoModel": "modeling_toy.Model"}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "modeling_toy.py").write_text(SHIFTED_BERT)
    return str(folder)


def _tokenizer(mask_id: int | None, named: str | None) -> PreTrainedTokenizerFast:
    names = [UNKNOWN, START, END, *WORDS]
    if mask_id is not None:
        names += [f"unused{number}" for number in range(len(names), mask_id)]
    vocabulary = {name: number for number, name in enumerate([*names, named or MASK])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = [AddedToken(name, special=True) for name in (START, END, named or MASK)]
    backend.add_special_tokens(special)
    roles = {"unk_token": UNKNOWN, "bos_token": START, "eos_token": END, "pad_token": END}
    if named is not None:
        roles["mask_token"] = named
    return PreTrainedTokenizerFast(tokenizer_object=backend, **roles)
