/** Style sheets are the bundler's affair. */
declare module "*.css"
