"""Checks the client that openapi-python-client has generated: each example of the document becomes an object of the class of its
event type, whose fields and payload have types of their own.

Arguments: the directory that contains the package `generated`, and the document."""

import json
import sys
import typing

directory, path = sys.argv[1:]
sys.path.insert(0, directory)
from generated import models  # noqa: E402
from generated.models.event_batch import EventBatch  # noqa: E402

with open(path, encoding="utf-8") as file:
    document = json.load(file)
schemas = document["components"]["schemas"]


def class_of(reference):
    return getattr(models, reference.rsplit("/", 1)[-1])


def examples(operation):
    return {name: example["value"] for name, example in operation["requestBody"]["content"]["application/json"]["examples"].items()}


def check_types(schema, made):
    """Each field of the schema is a field of the class, and is not Any unless the schema allows any value."""
    hints = typing.get_type_hints(type(made), vars(models) | vars(sys.modules[type(made).__module__]) | vars(typing))
    fields = [field for field in hints if field != "additional_properties"]
    assert len(fields) == len(schema["properties"]), (type(made), fields)
    typed = [name for name, of in schema["properties"].items() if set(of) - {"description"}]
    anything = [field for field in fields if hints[field] is typing.Any]
    assert len(anything) <= len(schema["properties"]) - len(typed), (type(made), anything)


checked = 0
inbound = examples(document["paths"]["/api/v1/crm/connect/events"]["post"])
for kind, reference in schemas["Event"]["discriminator"]["mapping"].items():
    event = EventBatch.from_dict(inbound[kind]).events[0]
    assert type(event) is class_of(reference), (kind, type(event))
    schema = schemas[reference.rsplit("/", 1)[-1]]
    check_types(schema, event)
    check_types(schemas["InboundActor"], event.actor)
    payload = schema["properties"]["payload"]["$ref"]
    if "payload" in inbound[kind]["events"][0]:
        assert type(event.payload) is class_of(payload), (kind, type(event.payload))
        if "properties" in schemas[payload.rsplit("/", 1)[-1]]:
            check_types(schemas[payload.rsplit("/", 1)[-1]], event.payload)
    checked += 1
for kind, reference in schemas["OutboundEvent"]["discriminator"]["mapping"].items():
    (body,) = examples(document["webhooks"][kind]["post"]).values()
    event = class_of(reference).from_dict(body)
    check_types(schemas[reference.rsplit("/", 1)[-1]], event)
    # Times are written with another notation of their offset.
    assert event.payload.to_dict().keys() == body["payload"].keys(), kind
    checked += 1
print(checked)
