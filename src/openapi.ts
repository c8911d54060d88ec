/** The OpenAPI 3.1 description, made from the schemas, the catalogue and the route. */
import { catalogue } from "./http/errors.ts";
import { plantsMethod, plantsPath } from "./http/router.ts";
import type { Schema } from "./json/schema.ts";
import { errorSchema, newPlantSchema, plantSchema } from "./plant.ts";

const schemas: Readonly<Record<string, Schema>> = {
  Plant: plantSchema, NewPlant: newPlantSchema, Error: errorSchema,
};

/** Of the contract, which is published: the program has a version of its own. */
const contractVersion = "1.0.0";

export function describeApi(): unknown {
  return {
    openapi: "3.1.0",
    info: {
      title: "Plant store",
      version: contractVersion,
      license: { name: "MIT", identifier: "MIT" },
    },
    security: [{ bearer: [] }],
    paths: {
      [plantsPath]: {
        [plantsMethod.toLowerCase()]: {
          operationId: "createPlant",
          summary: "Create a plant",
          requestBody: { required: true, content: jsonOf(newPlantSchema) },
          responses: {
            200: { description: "The plant is on stable storage", content: jsonOf(plantSchema) },
            400: { description: describe(400), content: jsonOf(errorSchema) },
            default: { description: describe(), content: jsonOf(errorSchema) },
          },
        },
      },
    },
    components: {
      schemas: Object.fromEntries(Object.entries(schemas).map(([name, schema]) =>
        [name, { ...schema, ...(schema.allOf && { allOf: schema.allOf.map(referred) }) }])),
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
    },
  };
}

const jsonOf = (schema: Schema): unknown => ({ "application/json": { schema: referred(schema) } });

function referred(schema: Schema): unknown {
  const name = Object.keys(schemas).find((known) => schemas[known] === schema);
  return name === undefined ? schema : { $ref: `#/components/schemas/${name}` };
}

/** The catalogue's rows of a status, or of all but 400. */
function describe(status?: number): string {
  return Object.values(catalogue)
    .filter(({ error }) => (status === undefined) !== (Math.floor(error / 100) === 400))
    .map(({ error, when }) => `${error}: ${when}`).join("; ");
}
