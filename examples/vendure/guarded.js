exports.guarded = config => config;
