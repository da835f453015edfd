"""Models of torchvision, timm, transformers and diffusers as they are: configurations alone, no weights, no network.

    case = cases()["transformers/BertForMaskedLM"]
    model, loss_fn, batch = case.make()

Torchvision's builders and timm's models have their published sizes; what transformers and diffusers build is small (two
layers, narrow), with each architecture's own code. A model that computes its own loss has no `loss_fn`, and its batch is
what its library's tokenizers and processors give. Other models have the mean of the squares of all that they return as
their loss, or the cross entropy where they classify.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

BATCH = 4
LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A model, its loss (None where the model returns it), and a batch."""

    model: nn.Module
    loss_fn: Callable[[Any, Any], Tensor] | None
    batch: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model of a library by its name there; `make` builds it."""

    library: str
    name: str
    build: Callable[..., Made]
    options: Mapping[str, Any] = field(default_factory=dict)

    def make(self, on: str | None = None) -> Made:
        """Build it; torchvision's models are on the meta device unless told otherwise."""
        options = {**self.options, **({"on": on} if on and self.library == "torchvision" else {})}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.build(self.name, **options)


def cases() -> dict[str, Case]:
    """All cases by `library/name`."""
    _without_torchvisions_extension()
    listed = [*_torchvision(), *_timm(), *_transformers(), *_diffusers()]
    return {f"{case.library}/{case.name}": case for case in listed}


def squares(output: Any, _: Any = None) -> Tensor:
    """The mean of the squares of all numbers that a model returns, added up."""
    total = torch.zeros(())
    for leaf in _leaves(output):
        if leaf.is_floating_point() and leaf.requires_grad:
            total = total + leaf.square().mean()
    return total


def _leaves(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    if not isinstance(tree, (Mapping, tuple, list)):
        return []
    parts = tree.values() if isinstance(tree, Mapping) else tree
    return [x for part in parts for x in _leaves(part)]


def _classes(size: int = 10) -> Tensor:
    return torch.randint(0, size, (BATCH,))


# -- torchvision --------------------------------------------------------------------------------------


def _without_torchvisions_extension() -> None:
    """Torchvision declares shapes for two operators of its extension when it is imported. A wheel for GPUs beside a
    PyTorch for CPUs cannot load that extension; then the operators are declared here, without kernels."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _KEPT.append(library)


_KEPT: list[Any] = []
"""Libraries of operators, which are gone with their objects."""


def _torchvision() -> list[Case]:
    from torchvision import models

    listed = []
    for name in models.list_models():
        of = models.get_model_builder(name).__module__.split(".")
        kind = next((k for k in ("detection", "optical_flow", "video") if k in of), "image")
        listed.append(Case(library="torchvision", name=name, build=_vision, options={"kind": kind}))
    return listed


_IMAGE = {"inception_v3": 299, "quantized_inception_v3": 299}
_SEVERAL = ("deeplab", "fcn_", "lraspp", "googlenet", "inception")
"""Parts of the names of models that return more than the scores of classes."""


def _vision(name: str, kind: str, on: str = "meta") -> Made:
    from torchvision import models

    options: dict[str, Any] = {"weights": None}
    if kind == "detection" or any(part in name for part in _SEVERAL[:3]):
        options["weights_backbone"] = None
    if name.startswith("quantized"):
        options["quantize"] = False
    if any(part in name for part in _SEVERAL[3:]):
        options["init_weights"] = False
    with torch.device("cpu" if "regnet" in name else on):  # it computes its widths with tensors
        model = models.get_model(name, **options).train()
    with torch.device(on):
        if kind == "optical_flow":
            images = (torch.rand(2, 3, 128, 128), torch.rand(2, 3, 128, 128))
            return Made(model=model, loss_fn=squares, batch=(images, ()))
        if kind == "detection":
            boxes = {"boxes": torch.rand(3, 4), "labels": torch.zeros(3, dtype=torch.int64)}
            given = ([torch.rand(3, 320, 320)] * 2, [boxes] * 2)
            return Made(model=model, loss_fn=squares, batch=(given, ()))
        shape = [BATCH, 3, *[_IMAGE.get(name, 224 if on == "meta" else 64)] * 2]
        if kind == "video":
            size = 224 if name.startswith(("mvit", "swin", "s3d")) else 112
            shape = [BATCH, 3, 16, size, size]
        images = torch.rand(shape)
        if any(part in name for part in _SEVERAL):
            return Made(model=model, loss_fn=squares, batch=(images, ()))
        classes = torch.randint(0, 10, (BATCH,))
    return Made(model=model, loss_fn=F.cross_entropy, batch=(images, classes))


# -- timm ---------------------------------------------------------------------------------------------

_TIMM = ["bat_resnext26ts", "beit_base_patch16_224", "botnet26t_256", "cait_xxs24_224", "coat_tiny", "coatnet_nano_rw_224", "convit_tiny", "convmixer_768_32", "convnext_atto", "convnextv2_atto", "crossvit_tiny_240", "cspresnet50", "davit_tiny", "deit_tiny_patch16_224", "densenet121", "dla34", "dm_nfnet_f0", "dpn48b", "eca_nfnet_l0", "edgenext_xx_small", "efficientformer_l1", "efficientnet_b0", "efficientvit_b0", "eva02_tiny_patch14_224", "fastvit_t8", "focalnet_tiny_srf", "gcvit_xxtiny", "gernet_s", "ghostnet_100", "hardcorenas_a", "hgnet_tiny", "hiera_tiny_224", "hrnet_w18_small", "inception_next_atto", "inception_resnet_v2", "levit_128s", "maxvit_nano_rw_256", "mambaout_femto", "mixer_s32_224", "mobilenetv3_small_100", "mobilenetv4_conv_small", "mobileone_s0", "mobilevit_xxs", "mvitv2_tiny", "nasnetalarge", "nest_tiny", "nextvit_small", "pit_ti_224", "pnasnet5large", "poolformer_s12", "pvt_v2_b0", "regnetx_002", "repghostnet_050", "repvgg_a0", "repvit_m0_9", "res2net50_26w_4s", "resmlp_12_224", "resnest14d", "resnet18", "resnetv2_50", "rexnet_100", "selecsls42b", "sequencer2d_s", "skresnet18", "starnet_s1", "swiftformer_xs", "swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256", "tiny_vit_5m_224", "tinynet_e", "tnt_s_patch16_224", "twins_pcpvt_small", "vgg11", "visformer_tiny", "vit_tiny_patch16_224", "vit_tiny_r_s16_p8_224", "volo_d1_224", "vovnet39a", "xception41", "xcit_nano_12_p16_224"]  # fmt: skip


def _timm() -> list[Case]:
    return [Case(library="timm", name=name, build=_timm_model) for name in _TIMM]


def _timm_model(name: str) -> Made:
    import timm

    model = timm.create_model(name, pretrained=False, num_classes=10).train()
    images = torch.rand(BATCH, *model.default_cfg["input_size"])
    return Made(model=model, loss_fn=_classify_first, batch=(images, _classes()))


def _classify_first(output: Any, targets: Tensor) -> Tensor:
    return F.cross_entropy(output[0] if isinstance(output, (tuple, list)) else output, targets)


# -- transformers -------------------------------------------------------------------------------------

_SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "word_embed_proj_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "num_encoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim", "d_ff", "d_inner", "n_inner", "ffn_hidden_size"), 64),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    "head_dim": 8, "d_kv": 8, "vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, **dict.fromkeys(("layerdrop", "encoder_layerdrop", "decoder_layerdrop"), 0.0), "max_position_embeddings": 64, "n_positions": 64, "moe_intermediate_size": 32,
    "num_local_experts": 4, "num_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "image_size": 32, "patch_size": 8,
    "num_labels": 10,
}  # fmt: skip
"""What makes a configuration small, for those that have such a field."""

TEXT, CLASSES, SPANS, IMAGE, PLAIN_TEXT, PLAIN_IMAGE, BOTH = (
    "text", "classes", "spans", "image", "plain text", "plain image", "both",
)  # fmt: skip

_ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    # encoders of text
    "AlbertForMaskedLM": (TEXT, {}),
    "BertForMaskedLM": (TEXT, {}),
    "BertForSequenceClassification": (CLASSES, {}),
    "BertForQuestionAnswering": (SPANS, {"num_labels": 2}),
    "BigBirdForMaskedLM": (TEXT, {"attention_type": "original_full"}),
    "CamembertForTokenClassification": (TEXT, {"num_labels": 100, "max_position_embeddings": 66}),
    "CanineForSequenceClassification": (CLASSES, {}),
    "ConvBertForMaskedLM": (TEXT, {}),
    "DebertaForMaskedLM": (TEXT, {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "DebertaV2ForMaskedLM": (TEXT, {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "DistilBertForMaskedLM": (TEXT, {}),
    "ElectraForMaskedLM": (TEXT, {}),
    "EsmForMaskedLM": (TEXT, {"mask_token_id": 3}),
    "FNetForMaskedLM": (PLAIN_TEXT, {"type_vocab_size": 4}),
    "FunnelForMaskedLM": (TEXT, {"block_sizes": [1, 1], "d_head": 8, "num_hidden_layers": ...}),
    "LayoutLMForMaskedLM": (TEXT, {}),
    "LongformerForMaskedLM": (TEXT, {"attention_window": [4, 4]}),
    "MegatronBertForMaskedLM": (TEXT, {}),
    "MobileBertForMaskedLM": (TEXT, {"true_hidden_size": 32, "intra_bottleneck_size": 32}),
    "ModernBertForMaskedLM": (TEXT, {}),
    "MPNetForMaskedLM": (TEXT, {"max_position_embeddings": 66}),
    "NystromformerForMaskedLM": (TEXT, {"num_landmarks": LENGTH, "segment_means_seq_len": LENGTH}),
    "RemBertForMaskedLM": (TEXT, {"input_embedding_size": 16, "output_embedding_size": 16}),
    "RobertaForMaskedLM": (TEXT, {"max_position_embeddings": 66}),
    "RoFormerForMaskedLM": (TEXT, {}),
    "SqueezeBertForMaskedLM": (TEXT, {}),
    "XLMRobertaForSequenceClassification": (CLASSES, {"max_position_embeddings": 66}),
    "XLNetLMHeadModel": (TEXT, {"max_position_embeddings": ...}),
    **dict.fromkeys(("Data2VecTextForMaskedLM", "ErnieForMaskedLM", "NomicBertForMaskedLM", "RobertaPreLayerNormForMaskedLM", "RoCBertForMaskedLM", "XLMRobertaXLForMaskedLM"), (TEXT, {})),
    # decoders
    "BioGptForCausalLM": (TEXT, {}),
    "BloomForCausalLM": (TEXT, {}),
    "CodeGenForCausalLM": (TEXT, {"rotary_dim": 4}),
    "CohereForCausalLM": (TEXT, {}),
    "CTRLLMHeadModel": (TEXT, {"dff": 64}),
    "FalconForCausalLM": (TEXT, {"head_dim": ...}),
    "Gemma2ForCausalLM": (TEXT, {}),
    "Gemma3ForCausalLM": (TEXT, {}),
    "GemmaForCausalLM": (TEXT, {}),
    "Glm4ForCausalLM": (TEXT, {}),
    "GPT2LMHeadModel": (TEXT, {}),
    "GPTBigCodeForCausalLM": (TEXT, {}),
    "GPTJForCausalLM": (TEXT, {"rotary_dim": 4}),
    "GPTNeoForCausalLM": (TEXT, {"attention_types": [[["global", "local"], 1]]}),
    "GPTNeoXForCausalLM": (TEXT, {}),
    "GraniteForCausalLM": (TEXT, {}),
    "LlamaForCausalLM": (TEXT, {}),
    "MistralForCausalLM": (TEXT, {}),
    "MptForCausalLM": (TEXT, {}),
    "NemotronForCausalLM": (TEXT, {}),
    "Olmo2ForCausalLM": (TEXT, {}),
    "OPTForCausalLM": (TEXT, {}),
    "PersimmonForCausalLM": (TEXT, {}),
    "Phi3ForCausalLM": (TEXT, {}),
    "PhiForCausalLM": (TEXT, {}),
    "Qwen2ForCausalLM": (TEXT, {}),
    "Qwen3ForCausalLM": (TEXT, {}),
    "SmolLM3ForCausalLM": (TEXT, {}),
    "StableLmForCausalLM": (TEXT, {}),
    "Starcoder2ForCausalLM": (TEXT, {}),
    "XGLMForCausalLM": (TEXT, {}),
    **dict.fromkeys(("ApertusForCausalLM", "ArceeForCausalLM", "BitNetForCausalLM", "Cohere2ForCausalLM", "DiffLlamaForCausalLM", "Ernie4_5ForCausalLM", "Exaone4ForCausalLM", "GlmForCausalLM", "HeliumForCausalLM", "HunYuanDenseV1ForCausalLM", "Lfm2ForCausalLM", "NanoChatForCausalLM", "OlmoForCausalLM", "Olmo3ForCausalLM", "OpenAIGPTLMHeadModel", "SeedOssForCausalLM"), (TEXT, {})),
    # mixtures of experts
    "DbrxForCausalLM": (TEXT, {"ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2}, "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4}}),
    "DeepseekV2ForCausalLM": (TEXT, {"head_dim": ..., "num_key_value_heads": 4, "q_lora_rank": None, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1, "topk_method": "greedy"}),
    "DeepseekV3ForCausalLM": (TEXT, {"head_dim": ..., "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1}),
    "GptOssForCausalLM": (TEXT, {}),
    "GraniteMoeForCausalLM": (TEXT, {}),
    "MixtralForCausalLM": (TEXT, {}),
    "OlmoeForCausalLM": (TEXT, {}),
    "PhimoeForCausalLM": (TEXT, {}),
    "Qwen2MoeForCausalLM": (TEXT, {"shared_expert_intermediate_size": 32}),
    "Qwen3MoeForCausalLM": (TEXT, {}),
    "SwitchTransformersForConditionalGeneration": (TEXT, {"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}),
    **dict.fromkeys(("Ernie4_5_MoeForCausalLM", "Glm4MoeForCausalLM"), (TEXT, {})),
    # state spaces and recurrences
    "NemotronHForCausalLM": (TEXT, {}),
    "BambaForCausalLM": (TEXT, {"attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_state": 16, "mamba_chunk_size": 8}),
    "FalconMambaForCausalLM": (TEXT, {"state_size": 8}),
    "JambaForCausalLM": (TEXT, {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_offset": 1, "expert_layer_period": 2, "mamba_dt_rank": 4, "use_mamba_kernels": False}),
    "Mamba2ForCausalLM": (TEXT, {"num_heads": 8, "state_size": 8, "n_groups": 1, "chunk_size": 8}),
    "MambaForCausalLM": (TEXT, {"state_size": 8}),
    "RecurrentGemmaForCausalLM": (TEXT, {"lru_width": 32, "attention_window_size": 8, "num_hidden_layers": 3}),
    "RwkvForCausalLM": (TEXT, {"attention_hidden_size": 32, "context_length": 64}),
    "Qwen3NextForCausalLM": (TEXT, {"layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "shared_expert_intermediate_size": 32}),
    # encoder and decoder
    "BartForConditionalGeneration": (TEXT, {}),
    "BlenderbotForConditionalGeneration": (TEXT, {}),
    "LEDForConditionalGeneration": (TEXT, {"attention_window": 4, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64}),
    "LongT5ForConditionalGeneration": (TEXT, {"local_radius": 4}),
    "M2M100ForConditionalGeneration": (TEXT, {}),
    "MarianMTModel": (TEXT, {}),
    "MBartForConditionalGeneration": (TEXT, {}),
    "MT5ForConditionalGeneration": (TEXT, {}),
    "PegasusForConditionalGeneration": (TEXT, {}),
    "ProphetNetForConditionalGeneration": (TEXT, {"num_hidden_layers": ..., "relative_max_distance": 32, "num_buckets": 8}),
    "T5ForConditionalGeneration": (TEXT, {}),
    **dict.fromkeys(("BigBirdPegasusForConditionalGeneration", "FSMTForConditionalGeneration", "MvpForConditionalGeneration", "PegasusXForConditionalGeneration", "PLBartForConditionalGeneration", "T5GemmaForConditionalGeneration", "UMT5ForConditionalGeneration"), (TEXT, {})),
    # vision
    **dict.fromkeys(("Dinov2WithRegistersForImageClassification", "HGNetV2ForImageClassification", "IJepaForImageClassification", "MobileNetV1ForImageClassification", "PerceiverForImageClassificationLearned", "SwiftFormerForImageClassification", "ViTMSNForImageClassification"), (IMAGE, {})),
    "BeitForImageClassification": (IMAGE, {}),
    "BitForImageClassification": (IMAGE, {"embedding_size": 32, "hidden_sizes": [128, 256], "depths": [1, 1]}),
    "ConvNextForImageClassification": (IMAGE, {"num_hidden_layers": ..., "hidden_size": ..., "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_stages": 4, "patch_size": 4}),
    "ConvNextV2ForImageClassification": (IMAGE, {"num_hidden_layers": ..., "hidden_size": ..., "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_stages": 4, "patch_size": 4}),
    "CvtForImageClassification": (IMAGE, {"num_layers": ..., "patch_size": ..., "num_attention_heads": ..., "image_size": 64, "embed_dim": [16, 32, 48], "num_heads": [1, 2, 3], "depth": [1, 2, 3]}),
    "Data2VecVisionForImageClassification": (IMAGE, {}),
    "DeiTForImageClassification": (IMAGE, {}),
    "Dinov2ForImageClassification": (IMAGE, {}),
    "DPTForDepthEstimation": (PLAIN_IMAGE, {"neck_hidden_sizes": [8, 8, 16, 16], "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "fusion_hidden_size": 16}),
    "EfficientNetForImageClassification": (IMAGE, {"hidden_dim": 320, "width_coefficient": 0.25, "depth_coefficient": 0.5}),
    "FocalNetForImageClassification": (IMAGE, {"embed_dim": 16, "depths": [1, 1], "hidden_sizes": [16, 32], "focal_levels": [1, 1], "focal_windows": [3, 3], "patch_size": 4}),
    "GLPNForDepthEstimation": (PLAIN_IMAGE, {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16}),
    "HieraForImageClassification": (IMAGE, {"image_size": [64, 64], "embed_dim": 16, "depths": [1, 1], "num_heads": [1, 2], "patch_size": [7, 7], "query_stride": [2, 2], "masked_unit_size": [8, 8], "num_query_pool": 1, "embed_dim_multiplier": 2.0}),
    "LevitForImageClassification": (IMAGE, {"image_size": 224, "patch_size": 16, "hidden_sizes": [16, 32, 48], "depths": [1, 1, 1], "num_attention_heads": [1, 2, 3], "key_dim": [8, 8, 8]}),
    "MobileNetV2ForImageClassification": (IMAGE, {}),
    "MobileViTForImageClassification": (IMAGE, {"image_size": 64, "patch_size": 2, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 24, 32, 40, 64]}),
    "PoolFormerForImageClassification": (IMAGE, {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "patch_size": 16}),
    "PvtV2ForImageClassification": (IMAGE, {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4]}),
    "RegNetForImageClassification": (IMAGE, {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "groups_width": 8}),
    "ResNetForImageClassification": (IMAGE, {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}),
    "SegformerForImageClassification": (IMAGE, {"image_size": 64, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4]}),
    "SwinForImageClassification": (IMAGE, {"num_attention_heads": ..., "num_hidden_layers": ..., "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "patch_size": 2}),
    "Swinv2ForImageClassification": (IMAGE, {"num_attention_heads": ..., "num_hidden_layers": ..., "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "patch_size": 2, "pretrained_window_sizes": [0, 0]}),
    "ViTForImageClassification": (IMAGE, {}),
    "ViTMAEForPreTraining": (PLAIN_IMAGE, {"decoder_hidden_size": 32, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 4, "decoder_intermediate_size": 64}),
    "VideoMAEForVideoClassification": ("video", {"num_frames": 4}),
    "YolosForObjectDetection": (PLAIN_IMAGE, {"num_detection_tokens": 5, "image_size": [32, 32], "patch_size": 8}),
    "DetrForObjectDetection": ("detr", {"use_timm_backbone": False, "use_pretrained_backbone": False, "num_queries": 5}),
    # audio
    "ASTForAudioClassification": ("spectrum", {"num_mel_bins": 16, "max_length": 32, "patch_size": 8, "frequency_stride": 8, "time_stride": 8}),
    "HubertForSequenceClassification": ("wave", {"conv_dim": [16] * 3, "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 3], "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0}),
    "Speech2TextForConditionalGeneration": ("speech", {"input_feat_per_channel": 16, "conv_channels": 16, "max_source_positions": 64, "max_target_positions": 64}),
    "UniSpeechForSequenceClassification": ("wave", {"conv_dim": [16] * 3, "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 3], "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0}),
    "Wav2Vec2ForSequenceClassification": ("wave", {"conv_dim": [16] * 3, "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 3], "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0}),
    "WavLMForSequenceClassification": ("wave", {"conv_dim": [16] * 3, "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 3], "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0}),
    "WhisperForConditionalGeneration": ("whisper", {"num_mel_bins": 16, "max_source_positions": 16, "max_target_positions": 32}),
    # several kinds of input, and series
    "BlipForImageTextRetrieval": (BOTH, {}),
    "CLIPModel": (BOTH, {"projection_dim": 16}),
    "GitForCausalLM": (BOTH, {}),
    "LayoutLMv3ForTokenClassification": ("layout", {"coordinate_size": 4, "shape_size": 8, "visual_embed": True, "input_size": 32}),
    "PatchTSTForPrediction": ("series", {"context_length": 32, "patch_length": 4, "prediction_length": 8, "num_input_channels": 2}),
    "SiglipModel": (BOTH, {}),
    "ViltForQuestionAnswering": ("vilt", {}),
}  # fmt: skip


def _transformers() -> list[Case]:
    return [
        Case(library="transformers", name=name, build=_transformer, options={"kind": kind, "fields": fields})
        for name, (kind, fields) in _ARCHITECTURES.items()
    ]  # fmt: skip


def _small(config_class: Any, fields: Mapping[str, Any]) -> Any:
    """A small configuration: its parts are small too."""
    probe = config_class()
    known = {name: value for name, value in _SMALL.items() if _has(probe, name)} | fields
    known = {name: value for name, value in known.items() if value is not ...}
    for name, part in getattr(config_class, "sub_configs", {}).items():
        if (
            name not in fields
            and getattr(probe, name, None) is not None
            and hasattr(part, "model_type")
        ):
            made = _small(type(getattr(probe, name)), {})
            known[name] = made.to_dict()
    return config_class(**known)


def _has(config: Any, name: str) -> bool:
    """Whether a configuration has a field that can be given."""
    name = config.attribute_map.get(name, name)
    return name in vars(config) or name in ("decoder_start_token_id", "num_labels")


def _transformer(name: str, kind: str, fields: Mapping[str, Any]) -> Made:
    import transformers

    model_class = getattr(transformers, name)
    config = _small(model_class.config_class, fields)
    model = model_class(config).train()
    batch = _batch(kind, model, config)
    accepted = inspect.signature(model.forward).parameters
    batch = {key: value for key, value in batch.items() if key in accepted}
    returns_loss = (
        {"labels", "start_positions", "return_loss"} & batch.keys()
        or kind == "series"
        or name == "ViTMAEForPreTraining"
    )
    if returns_loss:
        return Made(model=model, loss_fn=None, batch=transformers.BatchEncoding(batch))
    return Made(model=model, loss_fn=squares, batch=(transformers.BatchEncoding(batch), ()))


def _pixels(config: Any) -> Tensor:
    of = getattr(config, "vision_config", config)
    size = getattr(of, "image_size", 32)
    height, width = size if isinstance(size, (tuple, list)) else (size, size)
    return torch.rand(BATCH, getattr(of, "num_channels", 3), height, width)


def _batch(kind: str, model: nn.Module, config: Any) -> dict[str, Any]:
    ids = torch.randint(3, 100, (BATCH, LENGTH))
    text: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if kind == TEXT:
        return {**text, "labels": ids.clone()}
    if kind == CLASSES:
        return {**text, "labels": _classes()}
    if kind == SPANS:
        return {**text, "start_positions": _classes(), "end_positions": _classes()}
    if kind == PLAIN_TEXT:
        return text
    if kind == IMAGE:
        return {"pixel_values": _pixels(config), "labels": _classes()}
    if kind == PLAIN_IMAGE:
        return {"pixel_values": _pixels(config)}
    if kind == BOTH:
        pixels = {"pixel_values": _pixels(config), "return_loss": True}
        return {
            **text,
            **pixels,
            **({"labels": ids.clone()} if "Causal" in type(model).__name__ else {}),
        }
    if kind == "video":
        frames = torch.rand(BATCH, config.num_frames, 3, config.image_size, config.image_size)
        return {"pixel_values": frames, "labels": _classes()}
    if kind == "detr":
        return {
            "pixel_values": torch.rand(2, 3, 64, 64),
            "pixel_mask": torch.ones(2, 64, 64, dtype=torch.int64),
        }
    if kind == "spectrum":
        return {
            "input_values": torch.rand(BATCH, config.max_length, config.num_mel_bins),
            "labels": _classes(),
        }
    if kind == "wave":
        return {"input_values": torch.rand(BATCH, 1600), "labels": _classes()}
    if kind == "speech":
        return {"input_features": torch.rand(BATCH, 32, 16), "labels": ids}
    if kind == "whisper":
        return {"input_features": torch.rand(BATCH, 16, 32), "labels": ids}
    if kind == "layout":
        boxes = torch.randint(0, 100, (BATCH, LENGTH, 4)).sort(-1).values
        return {
            **text,
            "bbox": boxes,
            "pixel_values": torch.rand(BATCH, 3, 32, 32),
            "labels": ids % 10,
        }
    if kind == "series":
        return {"past_values": torch.rand(BATCH, 32, 2), "future_values": torch.rand(BATCH, 8, 2)}
    assert kind == "vilt", kind
    mask = torch.ones(BATCH, 32, 32, dtype=torch.int64)
    return {**text, "pixel_values": torch.rand(BATCH, 3, 32, 32), "pixel_mask": mask}


# -- diffusers ----------------------------------------------------------------------------------------

_DIFFUSERS: dict[str, dict[str, Any]] = {
    "UNet2DConditionModel": {"sample_size": 16, "block_out_channels": (32, 64), "layers_per_block": 1, "cross_attention_dim": 32, "attention_head_dim": 8, "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")},
    "AutoencoderKL": {"block_out_channels": (32, 64), "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2, "latent_channels": 4},
    "DiTTransformer2DModel": {"num_attention_heads": 2, "attention_head_dim": 16, "in_channels": 4, "out_channels": 4, "num_layers": 2, "sample_size": 16, "patch_size": 2, "norm_num_groups": 8},
    "UNet2DModel": {"sample_size": 16, "block_out_channels": (32, 64), "layers_per_block": 1, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "attention_head_dim": 8},
    "SD3Transformer2DModel": {"sample_size": 16, "patch_size": 2, "in_channels": 4, "num_layers": 2, "attention_head_dim": 8, "num_attention_heads": 4, "joint_attention_dim": 32, "caption_projection_dim": 32, "pooled_projection_dim": 64, "out_channels": 4},
    "FluxTransformer2DModel": {"in_channels": 4, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2, "joint_attention_dim": 32, "pooled_projection_dim": 32, "axes_dims_rope": (4, 4, 8)},
}  # fmt: skip


def _diffusers() -> list[Case]:
    return [
        Case(library="diffusers", name=name, build=_diffusion, options={"fields": fields})
        for name, fields in _DIFFUSERS.items()
    ]


def _diffusion(name: str, fields: Mapping[str, Any]) -> Made:
    import diffusers

    model = getattr(diffusers, name)(**fields).train()
    noisy, times = torch.rand(BATCH, 4, 16, 16), torch.randint(0, 1000, (BATCH,))
    if name == "AutoencoderKL":
        return Made(
            model=model, loss_fn=squares, batch=({"sample": torch.rand(BATCH, 3, 32, 32)}, ())
        )
    if name == "UNet2DModel":
        return Made(
            model=model, loss_fn=squares, batch=({"sample": noisy[:, :3], "timestep": times}, ())
        )
    if name == "DiTTransformer2DModel":
        given = {"hidden_states": noisy, "timestep": times, "class_labels": _classes()}
    elif name == "SD3Transformer2DModel":
        given = {"hidden_states": noisy, "timestep": times, "encoder_hidden_states": torch.rand(BATCH, 7, 32), "pooled_projections": torch.rand(BATCH, 64)}  # fmt: skip
    elif name == "FluxTransformer2DModel":
        given = {"hidden_states": torch.rand(BATCH, LENGTH, 4), "timestep": times / 1000, "encoder_hidden_states": torch.rand(BATCH, 7, 32), "pooled_projections": torch.rand(BATCH, 32), "img_ids": torch.rand(LENGTH, 3), "txt_ids": torch.zeros(7, 3), "guidance": None}  # fmt: skip
    else:
        given = {"sample": noisy, "timestep": times, "encoder_hidden_states": torch.rand(BATCH, 7, 32)}  # fmt: skip
    return Made(model=model, loss_fn=squares, batch=(given, ()))
