/** The OpenAPI 3.1 description, made from the schemas, the catalogue and the route. */
import { catalogue } from "./http/errors.ts";
import { plantsMethod, plantsPath } from "./http/router.ts";
import type { Schema } from "./json/schema.ts";
import { errorSchema, newPlantSchema, plantSchema } from "./plant.ts";

/** The interface's version, which is not this package's: it changes with the contract alone. */
const interfaceVersion = "1.0.0";

/** What the description refers to by name. */
const schemas: Readonly<Record<string, Schema>> = {
  Plant: plantSchema,
  NewPlant: newPlantSchema,
  Error: errorSchema,
};

/** The whole description as a value that JSON.stringify takes. */
export function describeApi(): unknown {
  return {
    openapi: "3.1.0",
    info: {
      title: "Plant store",
      version: interfaceVersion,
      license: { name: "MIT", identifier: "MIT" },
    },
    // Where it listens is not known here: a base path stands behind this.
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
    paths: {
      [plantsPath]: { [plantsMethod.toLowerCase()]: createPlant() },
    },
    components: {
      schemas: describeSchemas(),
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
    },
  };
}

/** The one operation. */
function createPlant(): unknown {
  return {
    operationId: "createPlant",
    summary: "Create a plant",
    requestBody: {
      required: true,
      content: jsonOf(newPlantSchema),
    },
    responses: {
      200: answer("The plant is on stable storage", plantSchema),
      400: answer(causesWith((status) => status === 400), errorSchema),
      default: answer(causesWith((status) => status !== 400), errorSchema),
    },
  };
}

/** The catalogue's rows of some statuses, as one sentence. */
function causesWith(isMeant: (status: number) => boolean): string {
  return Object.values(catalogue)
    .filter(({ error }) => isMeant(Math.floor(error / 100)))
    .map(({ error, when }) => `${error}: ${when}`)
    .join("; ");
}

const answer = (description: string, schema: Schema): unknown => ({
  description,
  content: jsonOf(schema),
});

/** Every body is one JSON text. */
const jsonOf = (schema: Schema): unknown => ({
  "application/json": { schema: referred(schema) },
});

/** The schemas by name; where one is a part of another, it is a reference. */
function describeSchemas(): unknown {
  const described = Object.entries(schemas).map(([name, schema]) => {
    const parts = schema.allOf?.map(referred);
    return [name, parts ? { ...schema, allOf: parts } : schema];
  });
  return Object.fromEntries(described);
}

/** A schema that has a name stands in the description once. */
function referred(schema: Schema): unknown {
  const name = Object.keys(schemas).find((known) => schemas[known] === schema);
  return name === undefined ? schema : { $ref: `#/components/schemas/${name}` };
}
