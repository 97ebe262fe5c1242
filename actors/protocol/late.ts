/**
 * Services that come late: those which need PostgreSQL or the cluster, asked for by an HTTP layer that started before them.
 *
 * HTTP serves from the first second; the services behind it are built in a layer with a life of its own, which waits for the
 * database. `lateLayer(Cameras)` provides `Cameras` to the handlers at once: each call is passed on to the real service once
 * it has been published, and fails with `DependencyUnavailable` (503) while there is none.
 *
 * Invariants
 * 1. Every member of a late service is a function that answers an Effect which may fail with `DependencyUnavailable`; a stream
 *    is answered inside such an Effect. The type {@link LateSafe} holds authors to it.
 * 2. What is published leaves with the scope that published it; a newer one is never removed by an older scope.
 * 3. A service that is missing from what was published is a mistake of the wiring: a defect, not a 503.
 */
import { DependencyUnavailable } from "#schema/problem.ts"
import { Context, Effect, Layer, type Scope, SubscriptionRef } from "effect"

/** `S` if each member can be asked late, otherwise `never` at the member that cannot. */
export type LateSafe<S> = {
  readonly [K in keyof S]: S[K] extends (...args: infer _Args) => Effect.Effect<infer _A, infer E, infer _R> ?
    DependencyUnavailable extends E ? S[K] : never :
    never
}

const absent = () =>
  new DependencyUnavailable({
    dependency: "database",
    message: "The database cannot be reached at the moment; recording goes on, try again later",
  })

/** Where the late services are published. */
export class Late extends Context.Service<Late, {
  /** Makes these services reachable until the scope closes. */
  readonly publish: <I>(services: Context.Context<I>) => Effect.Effect<void, never, Scope.Scope>
  /** The published service, now. */
  readonly get: <I, S>(tag: Context.Key<I, S>) => Effect.Effect<S, DependencyUnavailable>
  /** Whether there is something published; for health. */
  readonly present: Effect.Effect<boolean>
}>()("nightjar/actors/Late") {
  static readonly layer = Layer.effect(
    Late,
    Effect.gen(function*() {
      const published = yield* SubscriptionRef.make<Context.Context<never> | null>(null)
      return Late.of({
        publish: (services) =>
          Effect.acquireRelease(
            SubscriptionRef.set(published, services),
            () => SubscriptionRef.update(published, (current) => current === services ? null : current),
          ),
        get: (tag) =>
          Effect.flatMap(SubscriptionRef.get(published), (services) => {
            if (services === null) return Effect.fail(absent())
            return Effect.sync(() => Context.getUnsafe(services as Context.Context<typeof tag.Identifier>, tag))
          }),
        present: Effect.map(SubscriptionRef.get(published), (services) => services !== null),
      })
    }),
  )
}

/** Stands in for a service that comes late. */
export const lateLayer = <I, S extends LateSafe<S> & object>(tag: Context.Key<I, S>): Layer.Layer<I, never, Late> =>
  Layer.effect(
    tag,
    Effect.map(Late, (late) => {
      const members = new Map<string, (...args: ReadonlyArray<unknown>) => Effect.Effect<unknown, unknown, unknown>>()
      // The shape is known to the type system alone, hence a proxy; `S extends LateSafe<S>` makes it sound.
      return new Proxy<S>({} as S, {
        get: (_target, name) => {
          if (typeof name !== "string") return undefined
          const known = members.get(name)
          if (known !== undefined) return known
          const member = (...args: ReadonlyArray<unknown>) =>
            Effect.flatMap(late.get(tag), (service) => {
              const real = service[name as keyof S] as (
                ...args: ReadonlyArray<unknown>
              ) => Effect.Effect<unknown, unknown, unknown>
              return real(...args)
            })
          members.set(name, member)
          return member
        },
      })
    }),
  )
