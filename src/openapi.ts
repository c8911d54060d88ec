/** The OpenAPI 3.1 description, made from the schemas, the catalogue and the route. */
import { catalogue } from "./http/errors.ts";
import { plantsMethod, plantsPath } from "./http/router.ts";
import type { Schema } from "./json/schema.ts";
import { errorSchema, newPlantSchema, plantSchema } from "./plant.ts";

/** The whole description as a value that JSON.stringify takes. */
export function describeApi(): unknown {
  return {
    openapi: "3.1.0",
    info: {
      title: "Plant store",

      // The interface's, which is not this package's: it changes with the contract alone.
      version: "1.0.0",
      license: { name: "MIT", identifier: "MIT" }
    },
    // Where it listens is not known here: a base path stands behind this.
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
    paths: { [plantsPath]: { [plantsMethod.toLowerCase()]: createPlant() } },
    components: {
      schemas: {
        Plant: plantSchema,
        NewPlant: {
          ...newPlantSchema,
          allOf: newPlantSchema.allOf.map(referred)
        },
        Error: errorSchema
      },
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } }
    }
  };
}

/** The one operation. */
const createPlant = (): unknown => ({
  operationId: "createPlant",
  summary: "Create a plant",
  requestBody: { required: true, content: jsonOf(newPlantSchema) },
  responses: {
    200: answer("The plant is on stable storage", plantSchema),
    400: answer(
      causesWith((status) => status === 400),
      errorSchema
    ),
    default: answer(
      causesWith((status) => status !== 400),
      errorSchema
    )
  }
});

/** The catalogue's rows of some statuses, as one sentence. */
function causesWith(isMeant: (status: number) => boolean): string {
  return Object.values(catalogue)
    .filter(({ error }) => isMeant(Math.floor(error / 100)))
    .map(({ error, when }) => `${error}: ${when}`)
    .join("; ");
}

const answer = (description: string, schema: Schema): unknown => ({
  description,
  content: jsonOf(schema)
});

/** Every body is one JSON text. */
const jsonOf = (schema: Schema): unknown => ({
  "application/json": { schema: referred(schema) }
});

/** A schema with a title stands in the description once, under its title. */
const referred = (schema: Schema): unknown =>
  schema.title === undefined
    ? schema
    : { $ref: `#/components/schemas/${schema.title}` };
