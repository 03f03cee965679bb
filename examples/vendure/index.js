// A shop with Vendure's defaults, on MySQL. PORT and DB_HOST, DB_PORT, DB_USERNAME, DB_PASSWORD, DB_NAME are its settings.
const core = require('@vendure/core');
const {guarded} = require('./guarded');

const env = process.env;
env.VENDURE_DISABLE_TELEMETRY ??= 'true';
const hour = 3600 * 1000;
const config = {
  apiOptions: {hostname: '127.0.0.1', port: +env.PORT || 3000, adminApiPath: 'admin-api', shopApiPath: 'shop-api'},
  authOptions: {tokenMethod: ['bearer', 'cookie'], superadminCredentials: {identifier: 'superadmin', password: 'superadmin'}},
  dbConnectionOptions: {
    type: 'mysql', synchronize: process.argv[2] === 'populate', logging: false,
    host: env.DB_HOST, port: +env.DB_PORT, username: env.DB_USERNAME, password: env.DB_PASSWORD, database: env.DB_NAME,
  },
  // By default these are read again every 30 s: the lab wants the same commands in each purchase.
  entityOptions: {channelCacheTtl: hour, zoneCacheTtl: hour, taxRateCacheTtl: hour},
  paymentOptions: {paymentMethodHandlers: [core.dummyPaymentHandler]},
  plugins: [
    core.DefaultSchedulerPlugin.init(),
    core.DefaultJobQueuePlugin.init({useDatabaseForBuffer: true}),
    core.DefaultSearchPlugin.init({bufferUpdates: false, indexStockStatus: true}),
  ],
};

if (process.argv[2] === 'populate') {
  const {populate} = require('@vendure/core/cli');
  populate(() => core.bootstrap(config), require('./data.json'), require.resolve('./products.csv'))
    .then(app => app.close()).then(() => process.exit(0), err => { console.error(err); process.exit(1); });
} else {
  core.bootstrap(env.GUARDED ? guarded(config) : config).catch(err => { console.error(err); process.exit(1); });
}
