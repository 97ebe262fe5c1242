/**
 * Digital zoom: which part of a picture is shown. Lengths are shares of the frame, so that nothing depends on its size.
 *
 * Invariants
 * 1. `scale` is between 1 and {@link mostZoom}.
 * 2. `x` and `y`, where the picture's upper left corner lies in the frame, leave no part of the frame empty: `1 - scale` to 0.
 */
export interface Zoom {
  readonly scale: number
  readonly x: number
  readonly y: number
}

export const unzoomed: Zoom = { scale: 1, x: 0, y: 0 }
export const mostZoom = 12

const within = (value: number, least: number, most: number): number => Math.min(most, Math.max(least, value))

const clamped = (scale: number, x: number, y: number): Zoom => ({
  scale,
  x: within(x, 1 - scale, 0),
  y: within(y, 1 - scale, 0),
})

/** The picture `factor` times as large as it is; the point (`atX`, `atY`) of the frame stays where it is. */
export const zoomedAt = ({ scale, x, y }: Zoom, factor: number, atX: number, atY: number): Zoom => {
  const next = within(scale * factor, 1, mostZoom)
  const grown = next / scale
  return clamped(next, atX - (atX - x) * grown, atY - (atY - y) * grown)
}

/** The picture moved by a share of the frame. */
export const movedBy = ({ scale, x, y }: Zoom, byX: number, byY: number): Zoom => clamped(scale, x + byX, y + byY)
