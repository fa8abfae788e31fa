"""Checks an OpenAPI document: that it is one, and that what it shows fits what it says.

    check_document.py DOCUMENT [BODIES]

The document is checked against OpenAPI's own schema, and each of its examples against the schema beside it. BODIES is a
file of further values, `[{"schema": NAME, "value": ..}, ..]`, each of which must be what the named schema says, and have
no field that it doesn't name. Prints what is wrong, a line each, and then ends with 1.
"""

import json
import sys

import jsonschema
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

ADDRESS = "urn:document"


class Document:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.content = json.load(file)
        resource = Resource(contents=self.content, specification=DRAFT202012)
        self.registry = Registry().with_resource(ADDRESS, resource)

    def faults_of_document(self):
        for error in OpenAPIV31SpecValidator(self.content).iter_errors():
            yield f"{'/'.join(map(str, error.absolute_path))}: {error.message}"

    def faults_of_examples(self):
        count = 0
        for place, media in described_bodies(self.content):
            for name, example in media.get("examples", {}).items():
                count += 1
                yield from self.faults(f"{place}, example {name}", media["schema"], example["value"])
        for place, parameter in parameters(self.content):
            if "example" in parameter:
                count += 1
                yield from self.faults(place, parameter["schema"], parameter["example"])
        if count < 100:
            yield f"only {count} examples were found"

    def faults_of(self, bodies):
        for body in bodies:
            schema = self.content["components"]["schemas"][body["schema"]]
            yield from self.faults(body["schema"], closed(schema), body["value"])

    def faults(self, place, schema, value):
        validator = jsonschema.Draft202012Validator(
            absolute(schema), registry=self.registry, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
        )
        for error in validator.iter_errors(value):
            yield f"{place}: {error.json_path}: {error.message}"


def absolute(schema):
    """References from outside the document need its address."""
    if isinstance(schema, list):
        return [absolute(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: ADDRESS + value if name == "$ref" else absolute(value) for name, value in schema.items()
    }


def closed(schema):
    """The schema without room for fields that it doesn't name. Such room is for callers, not for us."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: closed(value) for name, value in schema.items()}
    if "properties" in schema and schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    return schema


def operations(document):
    for group in ("paths", "webhooks"):
        for name, item in document[group].items():
            for method, operation in item.items():
                yield f"{method} {name}", operation


def described_bodies(document):
    for place, operation in operations(document):
        for media in operation.get("requestBody", {}).get("content", {}).values():
            yield f"{place}, request", media
        for status, response in operation["responses"].items():
            for media in response.get("content", {}).values():
                yield f"{place}, {status}", media


def parameters(document):
    for place, operation in operations(document):
        for parameter in operation.get("parameters", []):
            yield f"{place}, {parameter['name']}", parameter


def main():
    document = Document(sys.argv[1])
    faults = [*document.faults_of_document(), *document.faults_of_examples()]
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as file:
            faults += document.faults_of(json.load(file))
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


main()
