"""UpdateFeatures, versions 0 to 2: raises or lowers the finalized level of cluster features (KIP-584).

Levels are what this server can do and don't change while it runs: a request for the present level succeeds, any other
is refused, with the reason, and then nothing changes.

v1 upgrade types and `validate_only` (KIP-778) · v2 one error for all features (KIP-1022)
"""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.features import FEATURES
from headrace.kafka.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3

_FEATURES = {feature.name: feature for feature in FEATURES}


def handle(call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    for update in request.feature_updates:
        why = _refusal(call, update)
        if why is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message="The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {why}",
            )
    return UpdateFeaturesResponse(
        error_message=None,
        results=[UpdatableFeatureResult(feature=update.feature, error_message="NONE") for update in request.feature_updates],
    )


def _refusal(call: Call, update: FeatureUpdateKey) -> str | None:
    level = update.max_version_level
    kind = update.upgrade_type
    if call.version == 0:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    feature = _FEATURES.get(update.feature)
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        return f"Local controller {call.broker.node_id} does not support this feature."
    if not feature.min_version <= level <= feature.max_version:
        return f"Local controller {call.broker.node_id} only supports versions {feature.min_version}-{feature.max_version}"
    if level < feature.finalized and kind == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
        )
    if level != feature.finalized:
        return "The level of a feature is that of the server and doesn't change while it runs."
    return None
