"""Where telemetry goes: each of them an ``Exporter`` as ``nodes`` has it.

=============  ===========================================================================
``endpoint``   an address, its headers, TLS and limits
``requests``   a batch as a request of OTLP
``answers``    what an answer means: accepted, later, never
``fields``     the small messages of Protocol Buffers in answers
``otlp_grpc``  OTLP over gRPC
``otlp_http``  OTLP over HTTP
``otap_grpc``  OTAP over gRPC; ``otap_stream`` is one stream of it
``console``    for people
``parquet``    one table for each payload type, a folder for each day, each row once
=============  ===========================================================================
"""

from quiver.otel.exporters.console import ConsoleExporter
from quiver.otel.exporters.endpoint import Endpoint, OtlpOptions, Tls
from quiver.otel.exporters.otap_grpc import OtapGrpcExporter
from quiver.otel.exporters.otlp_grpc import OtlpGrpcExporter
from quiver.otel.exporters.otlp_http import OtlpHttpExporter
from quiver.otel.exporters.parquet import Codec, ParquetExporter
from quiver.otel.exporters.requests import joined

__all__ = [
    "Codec",
    "ConsoleExporter",
    "Endpoint",
    "OtapGrpcExporter",
    "OtlpGrpcExporter",
    "OtlpHttpExporter",
    "OtlpOptions",
    "ParquetExporter",
    "Tls",
    "joined",
]
