"""ApiVersions, versions 0 to 4: which APIs this server speaks, in which versions, and the cluster features.

A client that asks in a version from the future gets version 0 of the response with UNSUPPORTED_VERSION and the range of
this one API, and asks again (KIP-511); the connection calls `unsupported_version` for that.

v1 throttle time · v2 · v3 flexible, the client's name and version (KIP-511), features (KIP-584) · v4 features whose
lowest version is 0, which older clients can't read
"""

from __future__ import annotations

import re

from headrace.kafka.api import SUPPORTED
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.features import EPOCH, FEATURES
from headrace.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

PRODUCE = 0
API_VERSIONS = 18
_TELEMETRY = (71, 72)  # nobody has to ask for as long as no metrics of clients are wanted (KIP-714)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if call.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=[
            _advertised(key, *versions)
            for key, versions in SUPPORTED.items()
            if key not in _TELEMETRY or call.broker.telemetry.wanted
        ],
        supported_features=[
            SupportedFeatureKey(name=feature.name, min_version=feature.min_version, max_version=feature.max_version)
            for feature in FEATURES
            if feature.min_version > 0 or call.version >= 4
        ],
        finalized_features_epoch=EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=feature.name, max_version_level=feature.finalized, min_version_level=feature.finalized)
            for feature in FEATURES
            if feature.finalized > 0
        ],
    )


def unsupported_version() -> ApiVersionsResponse:
    """To be encoded in version 0, whatever version was asked for."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_advertised(API_VERSIONS, *SUPPORTED[API_VERSIONS])]
    )


def _advertised(key: int, first: int, last: int) -> ApiVersion:
    if key == PRODUCE:
        first = 0  # as Kafka 4 does: librdkafka before 2.11 looks at it to decide about compression (KAFKA-18659)
    return ApiVersion(api_key=key, min_version=first, max_version=last)
