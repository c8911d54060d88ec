/** The OpenAPI 3.1 description, built from the schemas, the catalogue and the route. */
import { catalogue } from "./http/errors.ts";
import { plantsMethod, plantsPath } from "./http/router.ts";
import type { Schema } from "./json/schema.ts";
import { errorSchema, newPlantSchema, plantSchema } from "./plant.ts";

/** Returns the description as a value for JSON.stringify. */
export function describeApi(): unknown {
  return {
    openapi: "3.1.0",
    info: {
      title: "Plant store",

      // The interface's version, not the package's: it changes with the contract alone.
      version: "1.0.0",
      license: { name: "MIT", identifier: "MIT" }
    },
    // The address is unknown here. A base path is appended to it.
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
    paths: { [plantsPath]: { [plantsMethod.toLowerCase()]: createPlant() } },
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

/** Returns the one operation. */
const createPlant = (): unknown => ({
  operationId: "createPlant",
  summary: "Create a plant",
  requestBody: { required: true, content: contentOf(newPlantSchema) },
  responses: {
    200: responseOf("The plant is on stable storage", plantSchema),
    400: responseOf(
      causesWith((status) => status === 400),
      errorSchema
    ),
    default: responseOf(
      causesWith((status) => status !== 400),
      errorSchema
    )
  }
});

/** Returns the catalogue's rows of some statuses, as one sentence. */
function causesWith(isIncluded: (status: number) => boolean): string {
  return Object.values(catalogue)
    .filter(({ error }) => isIncluded(Math.floor(error / 100)))
    .map(({ error, when }) => `${error}: ${when}`)
    .join("; ");
}

const responseOf = (description: string, schema: Schema): unknown => ({
  description,
  content: contentOf(schema)
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
