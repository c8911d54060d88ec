/** The OpenAPI 3.1 description, built from the schemas, the catalogue and the route. */
import { limitsWith, type Limits } from "./config.ts";
import { catalogue, type Cause } from "./http/errors.ts";
import { keyForm } from "./http/idempotency-key.ts";
import { plantsMethod, plantsPath } from "./http/router.ts";
import type { Schema } from "./json/schema.ts";
import { errorSchema, newPlantSchema, plantSchema } from "./plant.ts";

/**
 * Returns the description as a value for JSON.stringify.
 *
 * @param limits if its `keysBytesMax` is 0, the description does not list Idempotency-Key
 */
export function describeApi(
  { keysBytesMax }: Pick<Limits, "keysBytesMax"> = limitsWith()
): unknown {
  const keys = keysBytesMax === 0 ? undefined : keysDescription;
  return {
    openapi: "3.1.0",
    info: {
      title: "Plant store",
      description:
        "After no response, or error 50302, it is unknown whether the plant was stored. " +
        (keys?.timeout ?? "A repeated request may store it twice."),

      // The interface's version, not the package's: it changes with the contract alone.
      version: "1.0.0",
      license: { name: "MIT", identifier: "MIT" }
    },
    // The address is unknown here. A base path is appended to it.
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
    paths: {
      [plantsPath]: { [plantsMethod.toLowerCase()]: createPlant(keys) }
    },
    components: {
      schemas: {
        Plant: plantSchema,
        NewPlant: {
          ...newPlantSchema,
          allOf: newPlantSchema.allOf.map(reference)
        },
        Error: errorSchema
      },
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } }
    }
  };
}

/** The parts of the description that are there if the store keeps keys. */
const keysDescription = {
  timeout:
    "Repeat the request with the same Idempotency-Key, and it stores the plant once; without a " +
    "key it may store the plant twice.",
  parameters: [
    {
      name: "Idempotency-Key",
      in: "header",
      description:
        "Makes a retry safe: within a window of the newest records, requests with the same " +
        "token, key and plant store one record. A String of RFC 9651 of 1 to 255 characters, " +
        "or the same text without quotes, such as a UUID.",
      schema: { type: "string", pattern: keyForm.source }
    }
  ],
  headers: {
    "Idempotency-Replayed": {
      description: "The plant was stored by an earlier request with this key",
      schema: { type: "string", enum: ["true"] }
    }
  }
};

/** Returns the one operation. */
const createPlant = (keys?: typeof keysDescription): unknown => ({
  operationId: "createPlant",
  summary: "Create a plant",
  parameters: keys?.parameters,
  requestBody: { required: true, content: contentOf(newPlantSchema) },
  responses: {
    200: {
      description: "The plant is on stable storage",
      headers: keys?.headers,
      content: contentOf(plantSchema)
    },
    400: errorsOf(
      (row) =>
        hasStatus(400, row) &&
        (keys !== undefined || row !== catalogue.idempotencyKey)
    ),
    422: keys && errorsOf((row) => hasStatus(422, row)),
    default: errorsOf((row) => !hasStatus(400, row) && !hasStatus(422, row))
  }
});

type Row = (typeof catalogue)[Cause];

const hasStatus = (status: number, { error }: Row): boolean =>
  Math.floor(error / 100) === status;

/** Returns the response of some rows of the catalogue: it names each of them. */
const errorsOf = (isIncluded: (row: Row) => boolean): unknown => ({
  description: Object.values<Row>(catalogue)
    .filter(isIncluded)
    .map(({ error, when }) => `${error}: ${when}`)
    .join("; "),
  content: contentOf(errorSchema)
});

/** Returns the content of every body: one JSON text. */
const contentOf = (schema: Schema): unknown => ({
  "application/json": { schema: reference(schema) }
});

/** Returns a reference to a schema with a title, which stands in the description once. */
const reference = (schema: Schema): unknown =>
  schema.title === undefined
    ? schema
    : { $ref: `#/components/schemas/${schema.title}` };
